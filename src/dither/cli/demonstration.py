"""The demonstration: from a folder of Parquet files to answers, by the commands that anybody would type.

The records are real: the flights of `dither.cli.example_data`. January is public, so the schema comes from it; the
other eleven months are collected, in three parts whose tallies merge. One plan asks everything, so one epsilon covers
all that a flight reports. Everything is done by `dither` commands, which are shown as they are run, in this process;
what they write stays in a folder, so that one can go on from there. The last step sends a part of the reports over a
network (`demonstration_network`). What is printed besides is read from their files,
and set beside the truth, which only a demonstration knows.
"""

import contextlib
import io
import math
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from dither.cli.common import shell_quoted
from dither.cli.demonstration_network import STORE, compare, missing, over_network
from dither.cli.example_data import PRIVATE, PUBLIC, write_example
from dither.display.significant_digits import number, span
from dither.display.table import TextTable
from dither.errors import WriteError, require
from dither.page.export import rms
from dither.planning import Plan

FOLDER = "dither-demo"
REPORT = "report.html"
RANGES = "ranges(hour, dep_delay, distance, origin)"
ASK = (
    *("mean(dep_delay)", "mean(air_time)", "histogram(carrier)", "distribution(hour)", "dest_delay", "make_delay"),
    *("median(dep_delay)", "std(dep_delay)", "sum(air_time)", "correlation(air_time, distance)"),
    *("mean(dep_delay by origin)", "table(origin, carrier)", "top(dest_delay, 5)"),
    *("share(dep_delay > 60 and hour >= 17)", "count(distance > 2000)"),
)
PARTS = {"spring": "0[2-5]", "summer": "0[6-9]", "autumn": "1[0-2]"}
QUERIES = (
    "hour >= 17 and dep_delay > 30",
    "hour < 9 and dep_delay < 15",
    "origin = 'JFK' and distance between 2000 and 3000",
)
_GUESSED, _EDITED = "high = 300", "high = 120"
_SHOWN = {
    "histogram(carrier)": 3,
    "distribution(hour)": 2,
    "presence(dest_delay)": 2,
    "conditional_mean(make_delay)": 3,
    "mean(dep_delay by origin)": 3,
    "table(origin, carrier)": 2,
}
_FLIGHTS = "flights"


def run(
    console: Console,
    *,
    folder: str | Path = FOLDER,
    epsilon: float = 2.0,
    seed: int | None = None,
    most: int | None = None,
    serve: bool = False,
) -> Path:
    """Go the whole way, print the way, and return where the report is. `most` flights of a month make it shorter.

    With `serve`, the collector of the last step stays up until the program is stopped.
    """
    began, target = time.monotonic(), _own(Path(folder))
    show = _Show(console, seed)
    show.title("Flights from New York City in 2013, as if each were a device that reports once")
    show.command(f"mkdir -p {shell_quoted(str(folder))} && cd {shell_quoted(str(folder))}")
    with contextlib.chdir(target):
        show.command(f"dither example {_FLIGHTS}")
        with show.working():
            paths = write_example(_FLIGHTS, most=most)
        users = _rows(paths[1:])
        show.note(f"January is public. The other eleven months, {users:,} flights, are collected.")
        _schema(show)
        made = _plan(show, epsilon, users)
        _collect(show)
        _estimate(show, made)
        _query(show, made)
        _network(show, made, serve)
    report = Path(folder) / REPORT
    show.title(f"The report, to open in a browser: {report}")
    show.note(
        f"That took {time.monotonic() - began:.0f} seconds. docs/tutorial.md explains every step, and "
        "dither demo --epsilon 1 shows what more privacy costs."
    )
    if seed is not None:
        show.note(
            "Simulated from a seed: it can be repeated, and promises nothing. Without --seed the noise is secure."
        )
    return report


def _own(folder: Path) -> Path:
    """A folder for the files: a new one, an empty one, or that of an earlier demonstration."""
    reason = ""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not (folder / _FLIGHTS / PUBLIC).is_dir():
            reason = "it holds other files, which might be replaced"
    except OSError as error:
        reason = (error.strerror or "it cannot be made").lower()
    if reason:
        raise WriteError(f"the folder {folder} cannot be used: {reason}. Name another with --output")
    return folder.resolve()


# The steps -----------------------------------------------------------------------------------------------------------


def _schema(show: "_Show") -> None:
    show.title("1. A schema, guessed from what is public")
    show.dither(f"infer {_FLIGHTS}/{PUBLIC} -o guess.toml")
    show.command(f"sed 's/^{_GUESSED}$/{_EDITED}/' guess.toml > schema.toml")
    lines = Path("guess.toml").read_text(encoding="utf-8").splitlines()
    edited = [_EDITED if line == _GUESSED else line for line in lines]
    Path("schema.toml").write_text("\n".join(edited) + "\n", encoding="utf-8")
    show.note(
        "Everybody can read the labels and ends of a schema, so they must not come from the data that are collected. "
        "A guess is to be edited: here delays count up to two hours, since a narrower range has a smaller error."
    )


def _plan(show: "_Show", epsilon: float, users: int) -> Plan:
    show.title("2. A plan: by which mechanisms, who is asked what, and how wrong it will be")
    asked = [part for question in (*ASK, RANGES) for part in ("--ask", question)]
    show.dither(f"plan schema.toml --epsilon {epsilon:g} --users {users}", *asked, "-o", "plan.json")
    made = Plan.from_json(Path("plan.json").read_text(encoding="utf-8"))
    show.table(made.table())
    show.note(
        f"A flight answers one of these, and everything it says is covered by epsilon {epsilon:g}: no report is more "
        f"than {math.exp(epsilon):.3g} times as likely under one record as under any other."
    )
    return made


def _collect(show: "_Show") -> None:
    show.title("3. Reports, as devices would send them, and tallies, as three servers would keep them")
    for place, (part, months) in enumerate(PARTS.items()):
        source = f"'{_FLIGHTS}/{PRIVATE}/2013-{months}.parquet'"
        show.dither(f"randomize plan.json {source} -o {part}.parquet --invalid substitute", *show.seeded(place))
    for part in PARTS:
        show.dither(f"tally plan.json {part}.parquet -o {part}.tally")
    show.dither(f"merge {' '.join(f'{part}.tally' for part in PARTS)} -o all.tally")


def _estimate(show: "_Show", made: Plan) -> None:
    show.title("4. Estimates, refined, with their error bars; in a trial, the truth beside them")
    truth = f"{_FLIGHTS}/{PRIVATE}"
    asked = [part for query in QUERIES for part in ("--query", query)]
    show.dither(f"estimate plan.json all.tally --truth {truth} -o estimates.parquet --html {REPORT}", *asked)
    with show.working():
        found = _Found.read(made, truth)
    show.table(found.excerpt())
    show.note(
        "The error as it was predicted (for the worst data there can be), as it is, and after refining; inside is the "
        "share of the 95% intervals, after refining, that hold the truth, of which 95% is promised for each:"
    )
    show.table(found.errors())


def _query(show: "_Show", made: Plan) -> None:
    show.title("5. Queries in the words of SQL, from the same tally")
    show.dither("query plan.json all.tally", *QUERIES, printed=True)
    with show.working():
        shares = _shares(made, f"{_FLIGHTS}/{PRIVATE}")
    show.note(f"The truth: {', '.join(f'{share:.4f}' for share in shares)}.")


def _network(show: "_Show", made: Plan, serve: bool) -> None:
    show.title("6. The same over a network: a collector, and a shuffler in front of it")
    lacking, part = missing(), list(PARTS)[-1]
    if lacking is not None:
        show.note(f"{lacking}. This step is left out.")
    elif show.seed is not None:
        show.note("A collector refuses simulated reports, which promise nothing: this step is left out.")
    else:
        with contextlib.ExitStack() as programs:
            address = over_network(show, made, part, programs)
            if serve:
                compare(show, made, part)
                show.note(
                    f"The collector stays up, and the shuffler with it. Live results: {address}/ (the token is "
                    f"in {Path(STORE, 'analyst.token').resolve()}). For those who are asked: {address}/join. Ctrl-C "
                    f"ends both. The report is in {REPORT}, beside it."
                )
                _until_stopped()
        if not serve:
            compare(show, made, part)


def _until_stopped() -> None:
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(1.0)


# What is shown -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Show:
    """Commands as they are typed, what they do, and a word about it."""

    console: Console
    seed: int | None

    def title(self, text: str) -> None:
        self.console.print(Text(f"\n{text}", style="bold"), soft_wrap=True)

    def note(self, text: str) -> None:
        self.console.print(Text(text))

    def table(self, table: TextTable) -> None:
        self.console.print(table)

    def command(self, line: str) -> None:
        self.console.print(Text(f"$ {line}", style="cyan"), soft_wrap=True)

    def dither(self, line: str, *words: str, printed: bool = False) -> None:
        """Show a command, and run it; what it prints is shown if asked for, its warnings always."""
        from dither.cli import main

        arguments = [*shlex.split(line), *words]
        self.command(_broken(["dither", *arguments], self.console.width - 4))
        output, errors = io.StringIO(), io.StringIO()
        with self.working(), contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            main.main(arguments, prog_name="dither", standalone_mode=False)
        if printed:
            self.console.print(Text(output.getvalue().rstrip()), soft_wrap=True)
        for told in errors.getvalue().splitlines():
            if told.startswith("Warning: ") and arguments[0] != "infer":  # whose warning is the title above it
                self.note(told)

    @contextmanager
    def working(self) -> Iterator[None]:
        """A sign of life."""
        with self.console.status("working ...") if self.console.is_terminal else contextlib.nullcontext():
            yield

    def seeded(self, place: int) -> list[str]:
        """The option for a simulation; every part gets noise of its own."""
        return [] if self.seed is None else ["--seed", str(self.seed + place)]


def _broken(words: list[str], width: int) -> str:
    """A command as it is typed: in double quotes what needs quotes, and cut into lines if it is long."""
    typed = [word if shlex.quote(word) == word else f'"{word}"' for word in words]
    lines = [typed[0]]
    for place, word in enumerate(typed[1:], 1):
        ahead = len(typed[place + 1]) + 1 if word.startswith("-") and place + 1 < len(typed) else 0
        valued = typed[place - 1].startswith("-")
        if len(lines[-1]) + 1 + len(word) + ahead > width and not valued:
            lines[-1] += " \\"
            lines.append(f"    {word}")
        else:
            lines[-1] += f" {word}"
    return "\n".join(lines)


# What is known -------------------------------------------------------------------------------------------------------


def _rows(paths: list[Path]) -> int:
    parquet = require("pyarrow.parquet", "demo")
    return sum(parquet.read_metadata(path).num_rows for path in paths)


@dataclass(frozen=True)
class _Found:
    """The rows of the file of estimates, question by question, each with its truth."""

    plan: Plan
    rows: dict[str, list[dict[str, Any]]]

    @classmethod
    def read(cls, plan: Plan, records: str) -> "_Found":
        from dither.engines.records import open_records as opened
        from dither.planning.trial import truths

        table = require("pyarrow.parquet", "demo").read_table("estimates.parquet").to_pylist()
        rows = {}
        for question, truth in truths(plan, opened(records, plan.attributes).batches()).items():
            own = [row for row in table if row["question"] == question]
            rows[question] = [{**row, "truth": float(true)} for row, true in zip(own, truth, strict=True)]
        return cls(plan, rows)

    def excerpt(self) -> TextTable:
        """The few numbers of some questions that are largest in truth; of keys those that most flights hold.

        Picked by the truth, which the noise does not know: the largest estimates are in part the luckiest.
        """
        columns: dict[str, list[str]] = {name: [] for name in ("question", "of", "estimate", "95% interval", "truth")}
        for question, rows in self.rows.items():
            held = self.rows.get(question.replace("conditional_mean", "presence"), rows)
            order = sorted(range(len(rows)), key=lambda place: -held[place]["truth"])
            shown = len(rows) if len(rows) == 1 else _SHOWN.get(question, 0)
            for place in order[:shown]:
                row = rows[place]
                columns["question"].append(question)
                columns["of"].append(row["of"])
                columns["estimate"].append(number(_real(row["value"]), row["stderr"]))
                columns["95% interval"].append(span(_real(row["low"]), _real(row["high"]), _real(row["stderr"])))
                columns["truth"].append(number(row["truth"], row["stderr"]))
        return TextTable(columns)

    def errors(self) -> TextTable:
        """Predicted and real errors: root mean squares over the numbers of a question; and how many intervals hold."""
        asked = [str(question) for question in self.plan.questions if str(question) in self.rows]
        before = [self._error(question, "original_value") for question in asked]
        after = [self._error(question, "value") for question in asked]
        return TextTable(
            {
                "question": asked,
                "numbers": [len(self.rows[question]) for question in asked],
                "predicted": [self.plan.predicted[question] for question in asked],
                "real": [refined if math.isnan(raw) else raw for raw, refined in zip(before, after, strict=True)],
                "refined": after,
                "inside": [self._inside(question) for question in asked],
            }
        )

    def _error(self, question: str, name: str) -> float:
        return rms([_real(row[name]) - row["truth"] for row in self.rows[question]])

    def _inside(self, question: str) -> str:
        """The share of the intervals that hold the truth, among those that are known."""
        known = [
            row for row in self.rows[question] if None not in (row["low"], row["high"]) and not math.isnan(row["truth"])
        ]
        held = sum(row["low"] <= row["truth"] <= row["high"] for row in known)
        return f"{held / len(known):.0%}" if known else ""


def _real(value: float | None) -> float:
    return math.nan if value is None else value


def _shares(plan: Plan, records: str) -> list[float]:
    """The shares of the flights for which the queries hold, by DuckDB, with the plan's substitutes for nulls."""
    from dither.engines.records import open_records as opened

    source = opened(records, plan.attributes)
    table = require("pyarrow", "demo").Table.from_batches(source.batches(), source.schema)
    with require("duckdb", "demo").connect() as base:
        base.register("flights", table)
        parts = ", ".join(f"avg(({condition})::int)" for condition in QUERIES)
        [shares] = base.execute(f"select {parts} from flights").fetchall()  # noqa: S608
    return list(shares)
