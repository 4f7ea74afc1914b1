"""The `dither` command: what is there, what it promises, and a demonstration."""

import json
from collections.abc import Sequence
from dataclasses import MISSING, fields
from fractions import Fraction
from typing import Any

import click
from rich.console import Console

import dither
from dither.core.errors import DitherError, ParameterError
from dither.show.table import Table

_SHOWN = 8
_LONGEST = 60


class _Friendly(click.Group):
    """A group whose dither errors are messages, not tracebacks."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DitherError as error:
            raise click.ClickException(str(error)) from None


@click.group(cls=_Friendly)
@click.version_option(dither.__version__, prog_name="dither")
def main() -> None:
    """Collect data under local differential privacy, with exact guarantees."""


@main.command()
def mechanisms() -> None:
    """List every mechanism with its parameters."""
    classes = list(dither.registry.values())
    table = Table(
        {
            "mechanism": [cls.__name__ for cls in classes],
            "for": [cls.family for cls in classes],
            "parameters": [_signature(cls) for cls in classes],
            "what it is": [(cls.__doc__ or "").split("\n")[0] for cls in classes],
        }
    )
    _print(table)


@main.command()
@click.argument("name", required=False)
@click.argument("parameters", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with every integer in full.")
def certify(name: str | None, parameters: Sequence[str], as_json: bool) -> None:
    """Certify the sampler of a mechanism: exact epsilon and delta from its integers.

    \b
    dither certify GRR k=1000 epsilon=1
    dither certify LocalHash k=1000 epsilon=1 delta=1e-6
    dither certify Sampled 'base=["Duchi","GRR(k=5)"]' d=2 epsilon=1
    dither certify                                (one example of every mechanism)
    """
    examples = [(cls, example) for cls in dither.registry.values() for example in cls.examples]
    made = [cls(**example) for cls, example in examples] if name is None else [_make(name, parameters)]
    if as_json:
        click.echo(json.dumps([_facts(mechanism) for mechanism in made], indent=2))
        return
    if name is not None:
        facts = _facts(made[0])
        _print(Table({"": list(facts), type(made[0]).__name__: [_plain(fact) for fact in facts.values()]}))
        return
    promises = [dither.privacy.certify(mechanism) for mechanism in made]
    table = Table(
        {
            "mechanism": [cls.__name__ for cls, _ in examples],
            "parameters": [" ".join(f"{key}={value}" for key, value in example.items()) for _, example in examples],
            "epsilon": [repr(promise.epsilon) for promise in promises],
            "delta": [repr(promise.delta) for promise in promises],
            "how": [promise.established for promise in promises],
        }
    )
    _print(table)


@main.command()
@click.option("--users", default=200_000, show_default=True, help="How many users report.")
@click.option("--epsilon", default=1.0, show_default=True, help="What all the reports of a user may cost together.")
@click.option("--seed", type=int, help="Repeat a simulation; without it the noise is secure and differs every time.")
def demo(users: int, epsilon: float, seed: int | None) -> None:
    """Randomize a made population, tally it, and compare the estimates with the truth."""
    from dither.demo import run

    run(Console(), users=users, epsilon=epsilon, seed=seed)


def _print(table: Table) -> None:
    Console(soft_wrap=False).print(table)


def _signature(cls: type) -> str:
    """Parameters as a user writes them."""
    return ", ".join(
        field.name if field.default is MISSING else f"{field.name}={field.default}"
        for field in fields(cls)
        if field.name != "weights"
    )


def _make(name: str, parameters: Sequence[str]) -> Any:
    cls = dither.registry.find(name)
    known = {field.name for field in fields(cls)} - {"weights"}  # type: ignore[arg-type]
    given = {}
    for parameter in parameters:
        key, mark, text = parameter.partition("=")
        if not mark or key not in known:
            raise ParameterError(f"write parameters as KEY=VALUE; {cls.__name__} takes {_signature(cls)}")
        given[key] = _value(text)
    try:
        return cls(**given)
    except TypeError:
        raise ParameterError(f"a parameter is missing; {cls.__name__} takes {_signature(cls)}") from None


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        exponent = "e" in text.lower() and isinstance(number, float) and number.is_integer()
        return int(number) if exponent else number  # 1e6 categories are a whole number of them
    if text[:1] in ("[", "{"):  # several bases, or groups with their budgets
        try:
            return json.loads(text)
        except ValueError:
            raise ParameterError('write several values as JSON, as in base=["Duchi","GRR(k=5)"], in quotes') from None
    return None if text == "None" else text


def _facts(mechanism: Any) -> dict[str, Any]:
    """The certificate and what it rests on. Integers beyond 2^53 are text in JSON, since readers would round them."""
    promise = dither.privacy.certify(mechanism)
    channel = mechanism.channel()
    ratio, (inputs, outputs) = channel.ratio(), channel.shape
    return {
        "parameters": {key: value for key, value in mechanism.to_dict().items() if key != "weights"},
        "integers": _texts(mechanism.weights),
        "epsilon": promise.epsilon,
        "delta": promise.delta,
        "established": promise.established,
        "largest likelihood ratio": str(ratio),
        "inputs": _size(inputs),
        "outputs": _size(outputs),
        "bytes a report": mechanism.dtype.itemsize,
        "fingerprint": mechanism.fingerprint,
    }


def _size(number: int) -> str:
    return str(number) if number < 1 << 80 else f"about 2^{number.bit_length() - 1}"


def _texts(weights: Any) -> list[Any]:
    return [_texts(weight) if isinstance(weight, tuple) else str(weight) for weight in weights]


def _plain(fact: Any) -> str:
    """A fact for a person: what is too long to be read is cut, and `--json` has it all."""
    if isinstance(fact, dict):
        return " ".join(f"{key}={value}" for key, value in fact.items() if value is not None and key != "mechanism")
    if isinstance(fact, list):
        shown = [f"({_plain(item)})" if isinstance(item, list) else item for item in fact[:_SHOWN]]
        return ", ".join(shown) + (f", ... {len(fact):,} in all (--json)" if len(fact) > _SHOWN else "")
    text = str(fact)
    if len(text) > _LONGEST and "/" in text:
        return f"about {float(Fraction(text)):.12g} (--json has the fraction)"
    return text
