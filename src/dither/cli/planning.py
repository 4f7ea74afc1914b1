"""Commands before anything is collected: a schema guessed from public data, and a plan made from a schema."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

import dither
from dither.cli.common import (
    STREAM,
    checked_output,
    facts,
    json_option,
    refuse_pipes,
    say,
    several,
    shell_quoted,
    show,
    table_option,
    tell,
    writable,
    write,
)
from dither.display.plots import check_picture
from dither.display.progress import progress, track
from dither.errors import ParameterError, require

_GOALS = ("rmse", "maximum")  # of `dither.plan`; to import them would load the planner for --help

if TYPE_CHECKING:
    import pyarrow

    from dither.engines.record_sources import Source

MOST_ROWS = 1_000_000


@click.command()
@click.argument("data", required=False, metavar="[DATA]")
@click.option("-o", "--output", metavar="FILE", help="Write the schema to this file (.toml); - is standard output.")
@click.option("--sql", metavar="QUERY", help="Take the rows from a DuckDB query instead of DATA.")
@table_option
@click.option(
    "--rows", type=click.IntRange(min=1), default=MOST_ROWS, show_default=True, help="Look at this many rows at most."
)
@click.option(
    "--text",
    "texts",
    multiple=True,
    metavar="NAME",
    help="A column of words whose most frequent ones are the question.",
)
@json_option()
def infer(
    data: str | None,
    output: str | None,
    sql: str | None,
    table: str | None,
    rows: int,
    texts: Sequence[str],
    as_json: bool,
) -> None:
    """Guess a schema from public or sample data, as a file to edit.

    Never from the data that will be collected: labels and ends are copied out of the table, and everybody sees them.
    DATA is a file (.csv, .parquet, .arrow, .duckdb), a folder of Parquet files, the address of one (s3://...), or - for
    standard input.

    \b
    dither infer sample.parquet -o schema.toml
    dither infer sample.csv --text word -o schema.toml
    dither infer --sql "select age, hour(start) as hour from 'sample.parquet'" -o schema.toml
    """
    from dither.planning.infer import WARNING
    from dither.planning.infer import infer as inferred

    if (data is None) == (sql is None):
        raise click.UsageError("Name a file of public or sample data, or give a query with --sql.")
    checked_output(output, [data] if data else [], as_json=as_json)
    writable(output)
    refuse_pipes([data], "the rows")
    found = inferred(first_rows(data, sql, table, rows, output), texts=texts)
    if as_json:
        facts(
            {
                "rows": found.rows,
                "schema": found.schema.to_dict(),
                "why": {guess.column: guess.why for guess in found.guesses},
                "left out": list(found.left_out),
            }
        )
    elif output != STREAM:
        show(found.table())
    if output:
        write(output, found.to_toml())
    tell(f"guessed from {several(found.rows, 'row')}" + (f"; wrote {output}" if output and output != STREAM else ""))
    tell(f"Warning: {WARNING}")
    if output and output != STREAM:
        tell(
            f"next: read and edit {output}; then dither plan {shell_quoted(output)} --epsilon 1 --users N -o plan.json"
        )
    elif not output and not as_json:
        tell("next: the same with -o schema.toml")


def first_rows(data: str | None, sql: str | None, table: str | None, most: int, output: str | None) -> "pyarrow.Table":
    """The first rows of a source, as an Arrow table; none of its files may be the output."""
    from dither.engines.duckdb_queries import may_read
    from dither.engines.records import sources_of

    arrow = require("pyarrow", "fast")
    sources = sources_of(data, sql, table)
    read = [source.name for source in sources] + ([output] if sql and output and may_read(sql, output) else [])
    checked_output(output, read)
    tables, left = [], most
    with progress("Reading", unit="rows") as advance:
        for source in sources:
            for batch in _batches(source) if left else ():
                some = batch.slice(0, left)
                tables.append(arrow.Table.from_batches([some]))
                left -= some.num_rows
                advance(some.num_rows)
                if not left:
                    break
    if not tables:
        return sources[0].columns.empty_table()
    try:
        joined = arrow.concat_tables(tables)
    except arrow.ArrowException:
        joined = None
    if joined is None:
        raise ParameterError("these files do not have the same columns with the same types; infer from one of them")
    return _typed(joined) if sources[0].text else joined


def _batches(source: "Source") -> Iterator["pyarrow.RecordBatch"]:
    """All columns of a source; each must have a name of its own."""
    names = source.columns.names
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"{source.title} has several columns of the name {name}; give each its own name")
    return source.batches(names)


def _typed(table: "pyarrow.Table") -> "pyarrow.Table":
    """A table of texts, as CSV has them, with numbers for columns that hold nothing else."""
    arrow = require("pyarrow", "fast")

    def numbers(column: "pyarrow.ChunkedArray") -> "pyarrow.ChunkedArray":
        for kind in (arrow.int64(), arrow.float64()):
            try:
                return column.cast(kind)
            except arrow.ArrowException:
                continue
        return column

    return arrow.Table.from_arrays([numbers(column) for column in table.columns], table.column_names)


@click.command()
@click.argument("schema", type=click.Path(dir_okay=False))
@click.option(
    "--epsilon",
    type=float,
    help="What all the reports of a user may cost together; with --central the most they may without a shuffler.",
)
@click.option(
    "--central",
    type=float,
    metavar="EPSILON",
    help="What shuffled reports may cost, with --delta: local budgets are as large as the crowd allows. With --rounds, "
    "what those of all of them may.",
)
@click.option(
    "--batch",
    type=int,
    metavar="USERS",
    help="Of how many users the smallest batch is that the shuffler forwards; by default all who report in a round.",
)
@click.option(
    "--users",
    metavar="NUMBER",
    help="How many users will report; of each value of the one public attribute, as in DE=60000,FR=40000.",
)
@click.option(
    "--group",
    "budgets",
    multiple=True,
    metavar="NAME=EPSILON:USERS",
    help="A budget that people may choose, and how many will, as in careful=0.5:60000; not with --epsilon and --users.",
)
@click.option(
    "--region",
    "regions",
    multiple=True,
    metavar="NAME:ATTRIBUTE=LOW:HIGH",
    help="Where the numbers of those who choose a budget lie, as in upper:income=100000:200000. It is public.",
)
@click.option("--delta", type=float, default=0.0, show_default=True, help="A failure probability, where allowed.")
@click.option("--ask", multiple=True, metavar="QUESTION", help='As in "mean(income)"; by default one an attribute.')
@click.option(
    "--prior", multiple=True, metavar="NAME=SHAPE", help='As in "income=normal(40000, 15000)"; else the worst.'
)
@click.option(
    "--weight",
    multiple=True,
    metavar="QUESTION=NUMBER",
    help='How much it matters, as in "mean(income)=2"; of its labels or keys one, as in "histogram(job)[nurse]=5"; of '
    'ranges how often a query is asked, as in "ranges(age, income)[age]=3", "[age, income]=2" or "[2]=1".',
)
@click.option(
    "--goal",
    type=click.Choice(_GOALS),
    default=_GOALS[0],
    show_default=True,
    help="What is to be small: the mean over questions of squared errors, or the largest error of all numbers.",
)
@click.option(
    "--most-evaluations",
    type=int,
    default=500,
    show_default=True,
    help="What a report may cost the server: hashes, or items that are looked at.",
)
@click.option("--most-bytes", type=int, help="How large a report may be.")
@click.option("--compare", is_flag=True, help="Also show the mechanisms that lost, question by question.")
@click.option(
    "--liars",
    type=float,
    metavar="SHARE",
    help="Plan for this share of users who lie, as in 0.01, and show how far they can move each number.",
)
@click.option(
    "--rounds",
    metavar="NUMBER|NAMES",
    help="Ask the same users so often, as in 30, or in rounds with these public names, as in W47,W48,W49; epsilon is "
    "for all of them together.",
)
@click.option(
    "--changes", type=int, help="How often a value may change in these rounds: then devices may keep a response."
)
@click.option(
    "--first",
    type=float,
    metavar="EPSILON",
    help="What one round may tell; else half of what kept responses do. With --central: without the shuffler.",
)
@click.option(
    "--phases",
    metavar="2|SHARES",
    help="Ask a quarter of the users first, and the others with what these told (dither next); or other shares, as in "
    "0.1,0.9. Numbers without ends in the schema need it.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write the plan to this file.")
@click.option(
    "--plot", type=click.Path(dir_okay=False), help="Draw the error against epsilon and users (.png .svg .pdf)."
)
@json_option("Print the plan as JSON instead of tables.")
def plan(
    schema: str,
    epsilon: float | None,
    central: float | None,
    batch: int | None,
    users: str | None,
    budgets: Sequence[str],
    regions: Sequence[str],
    delta: float,
    ask: Sequence[str],
    prior: Sequence[str],
    weight: Sequence[str],
    goal: str,
    most_evaluations: int,
    most_bytes: int | None,
    compare: bool,
    liars: float | None,
    rounds: str | None,
    changes: int | None,
    first: float | None,
    phases: str | None,
    output: str | None,
    plot: str | None,
    as_json: bool,
) -> None:
    """Plan a collection: the mechanisms, who is asked what, and the error that will come out.

    \b
    dither plan schema.toml --epsilon 1 --users 100000 -o plan.json
    dither plan schema.toml --epsilon 1 --users 100000 --ask "mean(income)" --plot error.png
    dither plan schema.toml --central 0.1 --delta 1e-6 --users 100000 --batch 20000 -o plan.json
    dither plan schema.toml --epsilon 1 --users 100000 --goal maximum -o plan.json
    dither plan schema.toml --epsilon 4 --users 100000 --rounds 30 --changes 0 -o plan.json
    dither plan schema.toml --central 1 --delta 1e-6 --users 100000 --rounds 30 -o plan.json
    dither plan schema.toml --group careful=0.5:60000 --group open=2:40000 -o plan.json
    dither plan schema.toml --group any=1:60000 --group upper=1:40000 --region upper:income=100000:200000 -o plan.json
    dither plan schema.toml --epsilon 1 --users 100000 --phases 2 -o first.json

    Attributes of kind "public" in the schema are carried by every report in the clear, and results are by their values.
    """
    from dither.planning.error_curves import error_curves

    options: dict[str, Any] = {
        "delta": delta,
        "ask": ask or None,
        "prior": _pairs("--prior", prior) or None,
        "weights": _weights(weight) or None,
        "most_evaluations": most_evaluations,
        "most_bytes": most_bytes,
    }
    stated = (epsilon is not None or central is not None) and users is not None
    if bool(budgets) == stated or (budgets and (epsilon or users)):
        raise click.UsageError(
            "Give --epsilon (or --central and --delta, if reports are shuffled) and --users, or budgets to choose from "
            "with --group NAME=EPSILON:USERS."
        )
    other = {"--group": budgets, "--rounds": rounds, "--central": central, "--phases": phases}
    other["--goal"] = goal != _GOALS[0]
    for option in (name for name, given in other.items() if plot and given):
        raise click.UsageError(
            f"--plot draws the mean error of local plans with one epsilon and round: leave out {option}."
        )
    if regions and not budgets:
        raise click.UsageError(
            "--region says where the numbers of those lie who choose a budget: give it with --group."
        )
    checked_output(output, [schema], as_json=as_json)
    checked_output(plot, [schema])
    check_picture(plot)
    writable(output, plot)
    described = dither.Schema.read(schema)
    again = {"rounds": _rounds(rounds), "changes": changes, "first": first, "phases": _phases(phases)}
    price, expected = _budgets(budgets, regions, described) if budgets else (epsilon, _users(users or ""))
    whole = {"central": central, "batch": batch, "goal": goal, "liars": liars or 0.0}
    made = dither.plan(described, price, users=expected, **whole, **options, **again)  # type: ignore[arg-type]
    if output:  # first, since whoever reads the tables may stop reading: dither plan ... | head
        write(output, made.to_json() + "\n")
    if as_json:
        say(made.to_json())
    elif output != STREAM:
        groups = [made.group_table()] if made.groups else []
        others = [made.compared(options["prior"])] if compare else []
        show(made.table(liars), *groups, made.explain(), made.ways(), *others)
    if output:
        tell(f"wrote {output}, plan {made.fingerprint[:12]}")
        if output != STREAM:
            tell("note: values outside of the schema are refused, unless --invalid substitute moves them into it")
            tell(f"next: {_next(output, made)}")
    if plot:
        watched = track("Planning for other epsilons")
        error_curves(described.private, made.epsilon, users=made.users, progress=watched, **options).plot(plot)
        tell(f"drew {plot}")


def _users(text: str) -> int | dict[str, int]:
    """A number of users, or one for each value of a public attribute."""
    if "=" not in text:
        return _whole("--users", text)
    return {name: _whole("--users", number) for name, number in _pairs("--users", text.split(",")).items()}


def _budgets(
    texts: Sequence[str], regions: Sequence[str], schema: dither.Schema
) -> tuple[dict[str, dither.Budget], dict[str, Any]]:
    """NAME=EPSILON:USERS, several times: each budget with its regions, and how many will choose it."""
    given = {name: value.partition(":") for name, value in _pairs("--group", texts).items()}
    if len(given) < len(texts) or not all(mark for _, mark, _ in given.values()):
        raise ParameterError("write --group as NAME=EPSILON:USERS, as in careful=0.5:60000, each name once")
    users = {name: _whole("--group", count) for name, (_, _, count) in given.items()}
    of_budget: dict[str, dict[str, tuple[float, float]]] = {name: {} for name in given}
    for key, value in _pairs("--region", regions).items():
        (name, mark, attribute), (low, colon, high) = key.partition(":"), value.partition(":")
        if not mark or not colon or name not in of_budget:
            raise ParameterError("write --region as NAME:ATTRIBUTE=LOW:HIGH, with the name of a --group")
        of_budget[name][attribute] = _number("--region", low), _number("--region", high)
    budgets = {
        name: dither.Budget(_number("--group", epsilon), of_budget[name]) for name, (epsilon, _, _) in given.items()
    }
    return budgets, {"budget": users} if schema.public else users


def _whole(option: str, text: str) -> int:
    if not (text.strip().isascii() and text.strip().isdigit()):
        raise ParameterError(f"{option} takes a whole number of users")
    return int(text)


def _rounds(text: str | None) -> int | list[str]:
    """The number of rounds, or their names."""
    if text is None:
        return 1
    return int(text) if text.isascii() and text.strip().isdigit() else [name.strip() for name in text.split(",")]


def _phases(text: str | None) -> int | list[float]:
    """The number of phases, or the shares of their users."""
    if text is None or (text.isascii() and text.strip().isdigit()):
        return int(text or 1)
    try:
        return [float(share) for share in text.split(",")]
    except ValueError:
        raise ParameterError("--phases takes 2, or the shares of the users of two phases, as in 0.25,0.75") from None


def _next(output: str, made: dither.Plan) -> str:
    if made.phases is not None:
        return (
            f"dither randomize {shell_quoted(output)} DATA -o first.parquet, with {made.users:,} users who are drawn "
            f"at random; dither tally; then, for the others, dither next {shell_quoted(output)} first.tally "
            "-o second.json"
        )
    if made.rounds > 1:
        return (
            "devices report through a ledger, ledger.report(plan, record, period=...); then dither rounds "
            f"{shell_quoted(output)} PERIOD=TALLY..."
        )
    return f"dither randomize {shell_quoted(output)} DATA -o reports.parquet"


def _pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE, several times."""
    pairs = {}
    for text in texts:
        name, mark, value = text.partition("=")
        if not mark or not value:
            raise ParameterError(f"write {option} as NAME=VALUE, in quotes")
        pairs[name.strip()] = value.strip()
    return pairs


def _weights(texts: Sequence[str]) -> dict[str, Any]:
    """QUESTION=NUMBER, and QUESTION[NAME]=NUMBER for some of its numbers or queries."""
    weights: dict[str, Any] = {}
    for text in texts:
        name, mark, value = (part.strip() for part in text.rpartition("="))  # a label may hold the sign
        if not mark or not value:
            raise ParameterError("write --weight as QUESTION=NUMBER or QUESTION[LABEL]=NUMBER, in quotes")
        cut = name.find(")[") + 1 or name.find("[")  # an attribute's name may hold a bracket
        question, label = (name[:cut].strip(), name[cut + 1 : -1]) if name.endswith("]") and cut > 0 else (name, None)
        if question in weights and isinstance(weights[question], dict) == (label is None):
            raise ParameterError("--weight: give a question one number, or numbers for what is in it")
        if label is None:
            weights[question] = _number("--weight", value)
        else:
            weights.setdefault(question, {})[label.strip()] = _number("--weight", value)
    return weights


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ParameterError(f"{option} takes a number behind the = sign") from None
