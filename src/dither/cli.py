"""The `dither` command: plan a collection, query it, compare mechanisms, certify what they promise, and a demo."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import MISSING, asdict, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import track

import dither
from dither.core.errors import DitherError, DitherWarning, ParameterError
from dither.show.table import Table

_SHOWN = 8
_LONGEST = 60
_CHOSEN = {"weights", "asked"}  # what a mechanism works out from its parameters, and stores


class _Friendly(click.Group):
    """A group whose dither errors and warnings are messages, not tracebacks."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", DitherWarning)
                try:
                    return super().invoke(ctx)
                finally:
                    for warning in caught:
                        click.echo(f"Warning: {warning.message}", err=True)
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
@click.argument("schema", type=click.Path(dir_okay=False))
@click.option("--epsilon", type=float, required=True, help="What all the reports of a user may cost together.")
@click.option("--users", type=int, required=True, help="How many users will report.")
@click.option("--delta", type=float, default=0.0, show_default=True, help="A failure probability, where allowed.")
@click.option("--ask", multiple=True, metavar="QUESTION", help='As in "mean(income)"; by default one an attribute.')
@click.option(
    "--prior", multiple=True, metavar="NAME=SHAPE", help='As in "income=normal(40000, 15000)"; else the worst.'
)
@click.option("--weight", multiple=True, metavar="QUESTION=NUMBER", help='How much it matters, as in "mean(income)=2".')
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write the plan to this file.")
@click.option(
    "--plot", type=click.Path(dir_okay=False), help="Draw the error against epsilon and users (.png .svg .pdf)."
)
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON instead of tables.")
def plan(
    schema: str,
    epsilon: float,
    users: int,
    delta: float,
    ask: Sequence[str],
    prior: Sequence[str],
    weight: Sequence[str],
    output: str | None,
    plot: str | None,
    as_json: bool,
) -> None:
    """Plan a collection: the mechanisms, who is asked what, and the error that will come out.

    \b
    dither plan schema.toml --epsilon 1 --users 100000 -o plan.json
    dither plan schema.toml --epsilon 1 --users 100000 --ask "mean(income)" --plot error.png
    """
    from dither.planning.outlook import outlook

    options: dict[str, Any] = {
        "delta": delta,
        "ask": ask or None,
        "prior": _pairs("--prior", prior) or None,
        "weights": {name: _number("--weight", text) for name, text in _pairs("--weight", weight).items()} or None,
    }
    described = dither.Schema.read(schema)
    made = dither.plan(described, epsilon, users=users, **options)
    console = Console()
    if as_json:
        click.echo(made.to_json())
    else:
        console.print(made.table())
        console.print(made.explain(), highlight=False)
        console.print(made.compared())
    if output:
        _write(output, made.to_json() + "\n")
        click.echo(f"wrote {output}, plan {made.fingerprint[:12]}", err=True)
    if plot:

        def bar(spots: Any) -> Any:
            return track(spots, "Planning for other epsilons", console=Console(stderr=True), transient=True)

        outlook(described, epsilon, users=users, progress=bar, **options).plot(plot)
        click.echo(f"drew {plot}", err=True)


@main.command()
@click.argument("mechanisms", nargs=-1, required=True, metavar="MECHANISM...")
@click.option("--epsilon", type=float, required=True, help="The budget of one report.")
@click.option("--users", type=int, default=10_000, show_default=True, help="How many report.")
@click.option("--delta", type=float, default=0.0, show_default=True, help="For mechanisms that have one.")
@click.option("--values", metavar="SHAPE", help='What users hold, as in "beta(5, 2)" or "zipf(1.1)"; else the worst.')
@click.option("--tolerance", type=float, help="Rank by the probability of being within it.")
def compare(
    mechanisms: Sequence[str], epsilon: float, users: int, delta: float, values: str | None, tolerance: float | None
) -> None:
    """Rank mechanisms by the error that will come out, without an experiment.

    Two mechanisms are also asked where they break even. ":naive" reads outputs as they are.

    \b
    dither compare Duchi Piecewise SquareWave --epsilon 1 --users 10000 --values uniform
    dither compare "GRR(k=20)" "LocalHash(k=20)" --epsilon 1
    dither compare SquareWave:naive Piecewise --epsilon 1 --values "beta(5, 2)"
    """
    from dither.mechanisms.recipe import made
    from dither.utility import break_even, limit, rank

    read = {text: text.removesuffix(":naive") for text in mechanisms}
    built = {text: made(recipe, epsilon, delta) for text, recipe in read.items()}
    kinds = {text: "naive" if text.endswith(":naive") else "calibrated" for text in mechanisms}
    found = rank(built, values, reports=users, tolerance=tolerance, estimator=kinds)
    _print(found.table())
    limits = {limit(each, users=users) for each in built.values()}
    click.echo(
        f"No mechanism with epsilon {epsilon:g} has an rmse below {min(limits):.5g} for every population of {users:,}."
    )
    if len(built) == 2:
        (one, a), (other, b) = built.items()
        click.echo(break_even(a, b, values, estimators=(kinds[one], kinds[other]), names=(one, other)))


@main.command()
@click.argument("name", required=False)
@click.argument("parameters", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--epsilon", type=float, help="The local epsilon of any mechanism, if none is named.")
@click.option("--users", type=int, required=True, help="How many reports are shuffled together.")
@click.option("--delta", type=float, default=1e-6, show_default=True, help="The failure probability of the crowd.")
@click.option("--plot", type=click.Path(dir_okay=False), help="Draw all bounds against users and local epsilon.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def amplify(
    name: str | None,
    parameters: Sequence[str],
    epsilon: float | None,
    users: int,
    delta: float,
    plot: str | None,
    as_json: bool,
) -> None:
    """What a shuffler adds: the guarantee of a crowd whose reports are shown in no order.

    \b
    dither amplify --epsilon 1 --users 1000000
    dither amplify Collision d=256 s=4 epsilon=1 --users 100000 --plot amplification.png
    """
    from dither.privacy.curves import curves
    from dither.privacy.shuffle import Randomizer

    if (name is None) == (epsilon is None):
        raise ParameterError("name a mechanism with its parameters, or give --epsilon for any mechanism")
    given: Any = epsilon if name is None else _make(name, parameters)
    local = Randomizer.of(given).local
    found, best = dither.privacy.bounds(given, users, delta), dither.privacy.amplify(given, users, delta)
    if as_json:
        facts = {bound: None if each is None else each.epsilon for bound, each in found.items()}
        click.echo(json.dumps({"users": users, "delta": delta, "local": local.epsilon, "bounds": facts,
                               "epsilon": best.epsilon, "established": best.established}, indent=2))  # fmt: skip
    else:
        central = [best.epsilon if each is None else each.epsilon for each in found.values()]
        _print(
            Table(
                {
                    "bound": list(found),
                    "epsilon": ["-" if each is None else f"{each.epsilon:.5g}" for each in found.values()],
                    "gain": [
                        "-" if each is None else f"{local.epsilon / other:.3g}"
                        for each, other in zip(found.values(), central, strict=True)
                    ],
                }
            )
        )
        click.echo(f"A report alone: {local}.")
        click.echo(f"{users:,} reports, shuffled: {best}.")
        if hasattr(given, "first"):
            click.echo("This is one round; rounds of the same users are not amplified together.")
    if plot:

        def bar(spots: Any) -> Any:
            return track(spots, "Other crowds", console=Console(stderr=True), transient=True)

        others = [each for each in parameters if not each.startswith("epsilon=")]
        make = None if name is None else lambda local: _make(name, [*others, f"epsilon={local!r}"])
        curves(epsilon or given.epsilon, users, delta, make, bar).plot(plot)
        click.echo(f"drew {plot}", err=True)


@main.command()
@click.argument("name", required=False)
@click.argument("parameters", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--trials", type=int, default=1_000_000, show_default=True, help="How many reports the attack may see.")
@click.option("--confidence", type=float, default=0.999, show_default=True, help="Of the lower bound on epsilon.")
@click.option("--seed", type=int, help="Repeat an audit; without it the randomness of production is attacked.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def audit(
    name: str | None, parameters: Sequence[str], trials: int, confidence: float, seed: int | None, as_json: bool
) -> None:
    """Attack the sampler of a mechanism, and print what leaks at least beside what is promised at most.

    The exit status is 1 if a certificate is refuted.

    \b
    dither audit GRR k=10 epsilon=1
    dither audit --trials 100000                  (one example of every mechanism)
    """

    from dither.privacy.auditing import side_by_side

    def bar(steps: Any) -> Any:
        return track(list(steps), "Attacking", console=Console(stderr=True), transient=True)

    classes = dither.registry.values()
    made = [cls(**cls.examples[0]) for cls in classes] if name is None else [_make(name, parameters)]
    chunks = None if len(made) > 1 else bar
    each = [
        dither.privacy.audit(mechanism, trials, confidence, seed=seed, progress=chunks)
        for mechanism in (made if len(made) == 1 else bar(made))
    ]
    if as_json:
        click.echo(json.dumps([{**asdict(found), "passed": found.passed} for found in each], indent=2))
    elif name is not None:
        _print(each[0].table())
    else:
        _print(side_by_side(each, [type(mechanism).__name__ for mechanism in made]))
    if not all(found.passed for found in each):
        raise SystemExit(1)


@main.command()
@click.argument("plan_file", metavar="PLAN", type=click.Path(dir_okay=False))
@click.argument("conditions", nargs=-1, required=True, metavar="CONDITION...")
@click.option("--records", required=True, type=click.Path(dir_okay=False), help="A table (.csv .parquet .arrow).")
@click.option("--question", metavar="QUESTION", help="Which ranges are meant, if the plan asks for several.")
@click.option("--seed", type=int, help="Repeat a simulation; without it the noise is secure and differs every time.")
@click.option(
    "--invalid",
    type=click.Choice(["error", "substitute"]),
    default="error",
    show_default=True,
    help="What becomes of values that do not fit.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def query(
    plan_file: str,
    conditions: Sequence[str],
    records: str,
    question: str | None,
    seed: int | None,
    invalid: str,
    as_json: bool,
) -> None:
    """Try a plan with ranges: randomize records, tally them, and answer conditions in the words of SQL.

    A trial: the records are on this machine. Each condition is answered by the share of users for whom it holds.

    \b
    dither plan schema.toml --epsilon 1 --users 100000 --ask "ranges(age, income)" -o plan.json
    dither query plan.json --records people.csv "age between 20 and 40 and income > 50000"
    """
    from dither.planning.trial import answered

    def bar(steps: Any) -> Any:
        console = Console(stderr=True)
        return track(steps, "Asking", console=console, transient=True, disable=not console.is_terminal)

    made = _plan_of(plan_file)
    found = answered(made, records, conditions, question=question, seed=seed, invalid=invalid, progress=bar)
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=2))
        return
    _print(found.table())
    click.echo(found.explain())


def _plan_of(path: str) -> Any:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ParameterError(f"the plan file {path} cannot be read; dither plan ... -o {path} writes one") from None
    return dither.Plan.from_json(text)


def _pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE, several times."""
    pairs = {}
    for text in texts:
        name, mark, value = text.partition("=")
        if not mark or not value:
            raise ParameterError(f"write {option} as NAME=VALUE, in quotes")
        pairs[name.strip()] = value.strip()
    return pairs


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ParameterError(f"{option} takes a number behind the = sign") from None


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None


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
        if field.name not in _CHOSEN
    )


def _make(name: str, parameters: Sequence[str]) -> Any:
    cls = dither.registry.find(name)
    known = {field.name for field in fields(cls)} - _CHOSEN  # type: ignore[arg-type]
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
    channel = mechanism.lasting()
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
        hidden = {"mechanism", *_CHOSEN}
        return " ".join(f"{key}={value}" for key, value in fact.items() if value is not None and key not in hidden)
    if isinstance(fact, list):
        shown = [f"({_plain(item)})" if isinstance(item, list) else item for item in fact[:_SHOWN]]
        return ", ".join(shown) + (f", ... {len(fact):,} in all (--json)" if len(fact) > _SHOWN else "")
    text = str(fact)
    if len(text) > _LONGEST and "/" in text:
        return f"about {float(Fraction(text)):.12g} (--json has the fraction)"
    return text
