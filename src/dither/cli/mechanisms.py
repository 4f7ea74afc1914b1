"""Commands about single mechanisms: what there is, what they promise, what leaks, what a crowd adds, which is best."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, asdict, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

import dither
from dither.cli.common import facts, json_option, say, show, tell
from dither.display.plots import check_picture
from dither.display.progress import track
from dither.display.table import TextTable
from dither.errors import ParameterError, RowError

if TYPE_CHECKING:
    from dither.core.mechanism import Mechanism

_SHOWN = 8
_LONGEST = 60
_CHOSEN = {"weights", "asked"}  # what a mechanism works out from its parameters, and stores


@click.command()
@json_option()
def mechanisms(as_json: bool) -> None:
    """List every mechanism with its parameters."""
    rows = [
        (cls.__name__, cls.family, _signature(cls), (cls.__doc__ or "").split("\n")[0])
        for cls in dither.registry.values()
    ]
    names = ("mechanism", "for", "parameters", "what it is")
    if as_json:
        facts([dict(zip(names, row, strict=True)) for row in rows])
    else:
        show(TextTable(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))))


@click.command()
@click.argument("name", required=False)
@click.argument("parameters", nargs=-1, metavar="[KEY=VALUE]...")
@json_option("Print JSON, with every integer in full.")
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
        facts([_certificate(mechanism) for mechanism in made])
        return
    if name is not None:
        found = _certificate(made[0])
        shown = [_READABLE.get(name, _shortened)(fact) for name, fact in found.items()]
        show(TextTable({"": list(found), type(made[0]).__name__: shown}))
        return
    promises = [dither.privacy.certify(mechanism) for mechanism in made]
    table = TextTable(
        {
            "mechanism": [cls.__name__ for cls, _ in examples],
            "parameters": [" ".join(f"{key}={value}" for key, value in example.items()) for _, example in examples],
            "epsilon": [repr(promise.epsilon) for promise in promises],
            "delta": [repr(promise.delta) for promise in promises],
            "how": [promise.established for promise in promises],
        }
    )
    show(table)


@click.command()
@click.argument("name", required=False)
@click.argument("parameters", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--trials", type=int, default=1_000_000, show_default=True, help="How many reports the attack may see.")
@click.option("--confidence", type=float, default=0.999, show_default=True, help="Of the lower bound on epsilon.")
@click.option("--seed", type=int, help="Repeat an audit; without it the randomness of production is attacked.")
@json_option()
def audit(
    name: str | None, parameters: Sequence[str], trials: int, confidence: float, seed: int | None, as_json: bool
) -> None:
    """Attack the sampler of a mechanism, and print what leaks at least beside what is promised at most.

    The exit status is 1 if a certificate is refuted.

    \b
    dither audit GRR k=10 epsilon=1
    dither audit --trials 100000                  (one example of every mechanism)
    """
    from dither.privacy.auditing import audits_table

    bar = track("Attacking")
    classes = dither.registry.values()
    made = [cls(**cls.examples[0]) for cls in classes] if name is None else [_make(name, parameters)]
    chunks = None if len(made) > 1 else bar
    each = [
        dither.privacy.audit(mechanism, trials, confidence, seed=seed, progress=chunks)
        for mechanism in (made if len(made) == 1 else bar(made))
    ]
    if as_json:
        facts([{**asdict(found), "passed": found.passed} for found in each])
    elif name is not None:
        show(each[0].table())
    else:
        show(audits_table(each, [type(mechanism).__name__ for mechanism in made]))
    if not all(found.passed for found in each):
        raise SystemExit(1)


@click.command()
@click.argument("name", required=False)
@click.argument("parameters", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--epsilon", type=float, help="The local epsilon of any mechanism, if none is named.")
@click.option("--users", type=int, help="How many reports are shuffled together.")
@click.option("--delta", type=float, default=1e-6, show_default=True, help="The failure probability of the crowd.")
@click.option("--central", type=float, help="Ask backwards: what keeps this epsilon after shuffling?")
@click.option("--plot", type=click.Path(dir_okay=False), help="Draw all bounds against users and local epsilon.")
@json_option()
def amplify(
    name: str | None,
    parameters: Sequence[str],
    epsilon: float | None,
    users: int | None,
    delta: float,
    central: float | None,
    plot: str | None,
    as_json: bool,
) -> None:
    """What a shuffler adds: the guarantee of a crowd whose reports are shown in no order.

    With --central it is asked backwards: the largest local epsilon for so many users, and the users that a local
    epsilon needs, by each bound.

    \b
    dither amplify --epsilon 1 --users 1000000
    dither amplify Collision d=256 s=4 epsilon=1 --users 100000 --plot amplification.png
    dither amplify Collision d=256 s=8 --central 0.1 --users 100000
    dither amplify --epsilon 4 --central 0.1
    """
    others = [each for each in parameters if not each.startswith("epsilon=")]
    make = None if name is None else lambda local: _make(name, [*others, f"epsilon={local!r}"])
    named = name is not None and len(others) < len(parameters)
    if central is not None and plot is None:
        local: Any = epsilon if name is None else _make(name, parameters) if named else None
        _backwards(central, users, delta, local, make, as_json)
        return
    if (name is None) == (epsilon is None):
        raise ParameterError("name a mechanism with its parameters, or give --epsilon for any mechanism")
    if users is None or central is not None:
        raise ParameterError("say how many reports are shuffled, with --users; --central draws no picture")
    check_picture(plot)
    given: Any = epsilon if name is None else _make(name, parameters)  # either, as bounds take it
    _forwards(given, users, delta, as_json)
    if plot:
        from dither.privacy.amplification_curves import curves

        curves(epsilon or given.epsilon, users, delta, make, track("Other crowds")).plot(plot)
        tell(f"drew {plot}")


def _forwards(given: Any, users: int, delta: float, as_json: bool) -> None:
    """What each bound states for so many users, beside the worst data set known."""
    from dither.privacy.shuffle import LocalRandomizer

    local = LocalRandomizer.of(given).local
    found, best = dither.privacy.bounds(given, users, delta), dither.privacy.amplify(given, users, delta)
    lower = found.lower
    if as_json:
        every = {bound: None if each is None else each.epsilon for bound, each in found.items()}
        told = {"users": users, "delta": delta, "local": local.epsilon, "bounds": every, "lower": lower}
        facts({**told, **best.to_dict(), "delta": delta, "model": best.model})
        return
    rows = [(bound, None if each is None else each.epsilon) for bound, each in found.items()]
    rows.append(("worst data set known", lower or None))
    show(
        TextTable(
            {
                "bound": [bound for bound, _ in rows],
                "epsilon": ["-" if each is None else f"{each:.5g}" for _, each in rows],
                "gain": ["-" if each is None else f"{local.epsilon / each:.3g}" for _, each in rows],
                "above the lower": [
                    "-" if each is None or not lower else f"{each / lower - 1:.1%}" for _, each in rows
                ],
            }
        )
    )
    say(f"A report alone: {local}.")
    say(f"{users:,} reports, shuffled: {best}.")
    if lower:
        say(f"On the worst data set known it is {lower:.5g}: no bound can be lower.")
    if LocalRandomizer.of(given).permanent is not None:
        say("That is for users who take part in the same rounds, with a value that does not change.")


def _backwards(
    central: float,
    users: int | None,
    delta: float,
    given: Any,
    make: "Callable[[float], Mechanism] | None",
    as_json: bool,
) -> None:
    """By each bound the largest local epsilon for so many users, and the users that a local epsilon needs."""
    from dither.privacy.shuffle import BOUNDS

    if users is None and given is None:
        raise ParameterError("give --users to be told a local epsilon, or a local epsilon to be told the users")
    names = [bound for bound in BOUNDS if bound != "own" or make is not None]
    columns: dict[str, list[float | int | None]] = {}
    if users is not None:
        found = [dither.privacy.local_budget(central, users, delta, bound, make) for bound in names]
        columns["largest local epsilon"] = [each if each > central * (1 + 1e-5) else None for each in found]
    if given is not None:
        columns["users needed"] = [_users_needed(given, central, delta, bound) for bound in names]
    if as_json:
        facts({"central": central, "delta": delta, "users": users, "bound": names, **columns})
        return
    shown = {
        title: ["-" if each is None else f"{each:,}" if isinstance(each, int) else f"{each:.4g}" for each in column]
        for title, column in columns.items()
    }
    show(TextTable({"bound": names, **shown}))
    if users is not None:
        best = max((each for each in columns["largest local epsilon"] if each is not None), default=central)
        say(f"{users:,} reports of a local epsilon of {best:.4g}, shuffled, keep {central:g} at delta {delta:g}.")


def _users_needed(given: Any, central: float, delta: float, bound: str) -> int | None:
    try:
        return dither.privacy.users_for(given, central, delta, bound)
    except ParameterError:  # by this bound no crowd is large enough
        return None


@click.command()
@click.argument("mechanisms", nargs=-1, required=True, metavar="MECHANISM...")
@click.option("--epsilon", type=float, help="The budget of one report.")
@click.option("--central", type=float, metavar="EPSILON", help="Behind a shuffler: what all reports together keep.")
@click.option("--users", type=int, default=10_000, show_default=True, help="How many report.")
@click.option("--delta", type=float, default=0.0, show_default=True, help="For mechanisms that have one, or --central.")
@click.option(
    "--values",
    metavar="SHAPE|FILE",
    help='What users hold, as in "beta(5, 2)" or "zipf(1.1)", or a file of it (.csv, .parquet); else the worst.',
)
@click.option("--column", "columns", multiple=True, help="Of the file, if not all; once for each dimension.")
@click.option("--tolerance", type=float, help="Rank by the probability of being within it.")
@json_option()
def compare(
    mechanisms: Sequence[str],
    epsilon: float | None,
    central: float | None,
    users: int,
    delta: float,
    values: str | None,
    columns: Sequence[str],
    tolerance: float | None,
    as_json: bool,
) -> None:
    """Rank mechanisms by the error that will come out, without an experiment.

    Two mechanisms are also asked where they break even, in each dimension if there are several. ":naive" reads outputs
    as they are. A file holds a column for each dimension, of numbers from -1 to 1 or of categories 0, 1, 2, ...

    \b
    dither compare Duchi Piecewise SquareWave --epsilon 1 --users 10000 --values uniform
    dither compare "GRR(k=20)" "LocalHash(k=20)" --epsilon 1
    dither compare SquareWave:naive Piecewise --epsilon 1 --values "beta(5, 2)"
    dither compare "Split(base='SquareWave', d=2):naive" "Split(base='Duchi', d=2)" --epsilon 1 --values users.csv
    dither compare "Collision(d=256, s=4)" "PCKV_UE(d=256, s=4)" --central 0.5 --delta 1e-6 --users 100000
    """
    from dither.mechanisms.spec import from_spec
    from dither.utility import break_even, limit, rank

    if (epsilon is None) == (central is None):
        raise ParameterError("give the budget of a report, --epsilon, or what shuffled reports keep, --central")
    read = {text: text.removesuffix(":naive") for text in mechanisms}
    kinds = {text: "naive" if text.endswith(":naive") else "calibrated" for text in mechanisms}
    if central is not None:
        if tolerance is not None:
            raise ParameterError("behind a shuffler mechanisms are ranked by their rmse: leave --tolerance out")
        held = _held(values, columns, from_spec(read[mechanisms[0]], central, 0.0))
        _compare_shuffled(read, kinds, central, delta, users, held, as_json)
        return
    assert epsilon is not None
    built = {text: from_spec(recipe, epsilon, delta) for text, recipe in read.items()}
    held = _held(values, columns, built[mechanisms[0]])
    found = rank(built, held, reports=users, tolerance=tolerance, estimator=kinds)
    least = min(limit(each, users=users) for each in built.values())
    meeting = None
    if len(built) == 2:
        (one, a), (other, b) = built.items()
        meeting = break_even(a, b, held, estimators=(kinds[one], kinds[other]), names=(one, other))
    if as_json:
        told: dict[str, Any] = {"break even": None if meeting is None else str(meeting)}
        if meeting is not None and meeting.per_item:
            told["break even of dimensions"] = [str(each) for each in meeting.per_item]
        facts({"epsilon": epsilon, "users": users, "limit": least, **told, "mechanisms": _rows(found.table())})
        return
    show(found.table())
    say(f"No mechanism with epsilon {epsilon:g} has an rmse below {least:.5g} for every population of {users:,}.")
    if meeting is not None:
        say(str(meeting))
        if len({str(each) for each in meeting.per_item}) > 1:
            show(meeting.items())


def _compare_shuffled(
    recipes: Mapping[str, str],
    kinds: Mapping[str, str],
    central: float,
    delta: float,
    users: int,
    held: Any,
    as_json: bool,
) -> None:
    """Mechanisms at one central guarantee, each with the local epsilon that it may spend."""
    from dither.mechanisms.spec import from_spec
    from dither.utility import rank_shuffled

    if delta <= 0:
        raise ParameterError("a crowd hides with some delta above 0: give it, as in --delta 1e-6")

    def maker(recipe: str) -> Callable[[float], "Mechanism"]:
        return lambda epsilon: from_spec(recipe, epsilon, 0.0)

    makes = {text: maker(recipe) for text, recipe in recipes.items()}
    budget = dither.privacy.local_budget
    found = rank_shuffled(makes, central, delta, held, users=users, local_budget=budget, estimator=kinds)
    if as_json:
        facts({"central": central, "delta": delta, "users": users, "mechanisms": _rows(found.table())})
        return
    show(found.table())
    say(
        f"{users:,} shuffled reports of each keep epsilon {central:g} with delta {delta:g}. Without a shuffler a "
        f"report itself has epsilon {central:g}."
    )


def _rows(table: TextTable) -> list[dict[str, Any]]:
    """A table for machines: names first, then numbers."""
    named, *numbers = table.columns.items()
    columns = dict([named, *((name, list(map(float, column))) for name, column in numbers)])
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _held(values: str | None, columns: Sequence[str], mechanism: "Mechanism") -> Any:
    """What users hold: the name of a distribution, or what a file says of the dimensions of a mechanism."""
    from dither.engines.record_readers import ENDINGS

    if values is None or not values.lower().endswith(ENDINGS):
        if columns:
            raise ParameterError("--column names columns of a file: give it, as in --values users.csv")
        return values
    return _read_values(values, columns, mechanism.reading.domain)


def _read_values(path: str, columns: Sequence[str], domain: Any) -> Any:
    """The columns of a file as values of a domain: a list of them, or one row a user."""
    import numpy as np

    from dither.core.domains import CATEGORIES, NUMBERS, RECORDS
    from dither.engines.records import open_records, sources_of
    from dither.schema import Numeric, Ordinal

    if domain.kind not in (NUMBERS, CATEGORIES, RECORDS):
        raise ParameterError("a file can hold numbers and categories; keys are compared for the worst users")
    names = list(columns or sources_of(path)[0].columns.names)
    kinds = [domain.of(j) for j in range(domain.d)] if domain.kind == RECORDS else [domain]
    if len(names) != len(kinds):
        raise ParameterError(
            f"these mechanisms take {len(kinds)} dimensions and the file has {len(names)} columns: name them, each "
            "with a --column, in their order"
        )
    whole = [kind.kind == CATEGORIES for kind in kinds]
    attributes = {
        name: Ordinal(0, kind.k - 1) if is_whole else Numeric(-1, 1)
        for name, kind, is_whole in zip(names, kinds, whole, strict=True)
    }
    batches = list(open_records(path, attributes).batches())
    read = [np.concatenate([batch.column(name).to_numpy() for batch in batches]) for name in names] if batches else []
    if not read:
        raise ParameterError("the file has no rows: give one with a row for each user")
    read = [_categories(column) if is_whole else column for column, is_whole in zip(read, whole, strict=True)]
    found = read[0] if domain.kind != RECORDS else np.column_stack(read)
    try:
        return domain.check(found)
    except RowError as error:
        wrong = str(error.but(substitute=""))  # nothing is put in place of a value in a prediction
    raise ParameterError(f"the file does not hold what these mechanisms take: {wrong}")


def _categories(column: Any) -> Any:
    """Whole numbers as such; what is none is left, and refused with the rest."""
    rounded = column.astype(int)
    return rounded if (rounded == column).all() else column


def _signature(cls: type) -> str:
    """Parameters as a user writes them."""
    return ", ".join(
        field.name if field.default is MISSING else f"{field.name}={field.default}"
        for field in fields(cls)
        if field.name not in _CHOSEN
    )


def _make(name: str, parameters: Sequence[str]) -> "Mechanism":
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


def _value(text: str) -> Any:  # whatever a parameter may be
    with suppress(ValueError):
        return int(text)
    with suppress(ValueError):
        number = float(text)
        return int(number) if "e" in text.lower() and number.is_integer() else number  # 1e6 categories are whole
    if text[:1] in ("[", "{"):  # several bases, or groups with their budgets
        try:
            return json.loads(text)
        except ValueError:
            raise ParameterError('write several values as JSON, as in base=["Duchi","GRR(k=5)"], in quotes') from None
    return None if text == "None" else text


def _certificate(mechanism: "Mechanism") -> dict[str, Any]:
    """The certificate and what it rests on. Integers beyond 2^53 are text in JSON, since readers would round them."""
    promise = dither.privacy.certify(mechanism)
    channel = mechanism.lifetime_channel()
    ratio, (inputs, outputs) = channel.ratio(), channel.shape
    return {
        "parameters": {key: value for key, value in mechanism.to_dict().items() if key != "weights"},
        "integers": json.loads(json.dumps(mechanism.weights), parse_int=str),
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


# A fact for a person: what is too long to be read is cut, and `--json` has it all.


def _parameters(found: Mapping[str, Any]) -> str:
    hidden = {"mechanism", *_CHOSEN}
    return " ".join(f"{key}={value}" for key, value in found.items() if value is not None and key not in hidden)


def _integers(found: Sequence[Any]) -> str:
    shown = [f"({_integers(item)})" if isinstance(item, list) else item for item in found[:_SHOWN]]
    return ", ".join(shown) + (f", ... {len(found):,} in all (--json)" if len(found) > _SHOWN else "")


def _shortened(fact: object) -> str:
    text = str(fact)
    if len(text) > _LONGEST and "/" in text:
        return f"about {float(Fraction(text)):.12g} (--json has the fraction)"
    return text


_READABLE: Mapping[str, Callable[[Any], str]] = {"parameters": _parameters, "integers": _integers}
