"""What commands share: tables and facts on standard output, notes on standard error, plans and tallies from files."""

import json
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

import click

from dither.errors import DitherError, ParameterError, TallyError, WriteError

if TYPE_CHECKING:
    from dither.planning import Plan
    from dither.planning.plan_tally import PlanTally

STREAM = "-"
_LISTED = 8
_Command = TypeVar("_Command", bound=Callable)


class Stopped(click.ClickException):
    """Stopped from outside; the message says how to go on."""

    exit_code = 130

    def show(self, file: object = None) -> None:
        click.echo(self.message, err=True)


# Options that several commands have --------------------------------------------------------------------------------


def plan_argument(command: _Command) -> _Command:
    """PLAN, as the first argument."""
    return click.argument("plan_file", metavar="PLAN", type=click.Path(dir_okay=False))(command)


def json_option(help_: str = "Print facts for machines, as JSON.") -> Callable[[_Command], _Command]:
    """--json."""
    return click.option("--json", "as_json", is_flag=True, help=help_)


def seed_option(command: _Command) -> _Command:
    """--seed."""
    text = "Repeat a simulation; without it the noise is secure and differs every time."
    return click.option("--seed", type=int, help=text)(command)


def invalid_option(command: _Command) -> _Command:
    """--invalid."""
    return click.option(
        "--invalid",
        type=click.Choice(["error", "substitute"]),
        default="error",
        show_default=True,
        help="What becomes of values that do not fit: refused, or replaced as the plan says.",
    )(command)


def invalid_reports_options(command: _Command) -> _Command:
    """--invalid-reports and --allow-simulated."""
    drop = click.option(
        "--invalid-reports",
        type=click.Choice(["error", "drop"]),
        default="error",
        show_default=True,
        help="What becomes of reports that no honest client sent, and of simulated ones among others: one of them "
        "stops it, or they are left out and counted by reason.",
    )
    allow = click.option(
        "--allow-simulated", is_flag=True, help="Count simulated reports among others; then nothing is promised."
    )
    return drop(allow(command))


def table_option(command: _Command) -> _Command:
    """--table."""
    text = "The table of a DuckDB database (.duckdb); needed if it has several."
    return click.option("--table", metavar="NAME", help=text)(command)


def engine_option(command: _Command) -> _Command:
    """--engine."""
    return click.option(
        "--engine",
        "engine_name",
        type=click.Choice(["local", "spark"]),
        default="local",
        show_default=True,
        help="Where the work is done: on the cores of this machine, or on Spark.",
    )(command)


def key_option(help_: str) -> Callable[[_Command], _Command]:
    """--key."""
    return click.option("--key", "key_file", metavar="FILE", help=help_)


# What is printed ---------------------------------------------------------------------------------------------------


def show(*parts: object) -> None:
    """Tables and text on standard output."""
    from rich.console import Console

    with to_output():
        console = Console(soft_wrap=False)
        for part in parts:
            console.print(part, highlight=False)


def say(text: str) -> None:
    """Text on standard output, as it is."""
    with to_output():
        click.echo(text)


def facts(found: object) -> None:
    """JSON on standard output."""
    say(json.dumps(found, indent=2, allow_nan=False))


def tell(text: str) -> None:
    """A line on standard error: what was done, and what to do next."""
    click.echo(printable(text), err=True)


def printable(text: str) -> str:
    """Text that may hold names from files, fit for a terminal, which obeys some characters instead of showing them.

    >>> printable("age\x1b[2J")
    'age?[2J'
    """
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)


@contextmanager
def to_output() -> Iterator[None]:
    """Around what is written to standard output: a full disk behind it is told as one of a file."""
    from dither.core.atomic_write import write_errors

    with write_errors("standard output"):
        try:
            yield
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError:
            close_output()
            raise


def close_output() -> None:
    """Standard output takes no more; what is left in its buffer must not raise again at the end."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)


def enumerated(names: Iterable[str], most: int = _LISTED) -> str:
    """As in "a, b, c and 4 more"."""
    names = list(names)
    rest = len(names) - most
    return ", ".join(printable(name).replace("\n", "?") for name in names[:most]) + (
        f" and {rest:,} more" if rest > 0 else ""
    )


def several(count: int, noun: str) -> str:
    """As in "1 report" and "1,000 reports"."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def tell_left_out(dropped: Mapping[str, int]) -> None:
    """How many reports were left out, and why, if there are any."""
    from dither.core.reports import left_out_in_words

    if dropped:
        tell(f"note: {left_out_in_words(dropped).removesuffix('.')}")


def pace(count: int, seconds: float, noun: str) -> str:
    """As in "1,000 reports in 0.5 seconds (2,000 reports/s)"."""
    speed = f" ({several(round(count / seconds), noun)}/s)" if seconds > 0 and count else ""
    return f"{several(count, noun)} in {seconds:,.1f} seconds{speed}"


def shell_quoted(path: str) -> str:
    """A file name as one types it in a shell: as one word, and never as an option.

    >>> print(*map(shell_quoted, ("all.tally", "-x.tally", "a b.tally")))
    all.tally ./-x.tally 'a b.tally'
    """
    import shlex

    name = f"./{path}" if path.startswith("-") and path != STREAM else path
    if name.isprintable():
        return shlex.quote(name)
    letters = ("".join(f"\\x{byte:02x}" for byte in os.fsencode(letter)) if not letter.isprintable() else letter
               for letter in name.replace("\\", "\\\\").replace("'", "\\'"))  # fmt: skip
    return f"$'{''.join(letters)}'"


# What is read ------------------------------------------------------------------------------------------------------


def standard_input() -> BinaryIO:
    """Standard input, for bytes."""
    if sys.stdin is None:  # as after <&-
        raise ParameterError("standard input (-) is closed; name a file, or pipe one in")
    return sys.stdin.buffer


def refuse_pipes(paths: Iterable[str | None], what: str) -> None:
    """Files are read in pieces, some of them twice; a pipe with a name, as of <(...), cannot be."""
    for path in paths:
        if path and path != STREAM and _is_pipe(path):
            raise ParameterError(f"{path} is a pipe or a device, and no file: pipe {what} in, and name it -")


def _is_pipe(path: str) -> bool:
    if path.startswith(("/dev/stdin", "/dev/fd/", "/proc/self/fd/")):  # which may lead to a file without an ending
        return True
    with suppress(OSError, ValueError):
        found = os.stat(path).st_mode
        return stat.S_ISFIFO(found) or stat.S_ISCHR(found) or stat.S_ISSOCK(found)
    return False


def read_bytes(path: str, what: str, hint: str = "") -> bytes:
    """The bytes of a file, or of standard input."""
    try:
        return standard_input().read() if path == STREAM else Path(path).read_bytes()
    except OSError as error:
        reason = f"the {what} file {path} cannot be read: {_reason(error)}{hint}"
    raise ParameterError(reason)


def read_plan(path: str) -> "Plan":
    """The plan in a file."""
    from dither.planning import Plan

    name = "standard input" if path == STREAM else path
    try:
        text = (standard_input().read() if path == STREAM else Path(path).read_bytes()).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        raise ParameterError(
            f"the plan file {name} cannot be read; dither plan ... -o {shell_quoted(path)} writes one"
        ) from None
    try:
        return Plan.from_json(text)
    except DitherError as error:
        reason = str(error)
    raise ParameterError(f"{name}: {reason}")


def sealing_key(path: str | None) -> bytes | None:
    """The key in a file, if there is one; a note if others can read it."""
    from dither.core import seals

    if path is None:
        return None
    key = seals.read_key(path)
    with suppress(OSError):
        if os.name == "posix" and stat.S_IMODE(os.stat(path).st_mode) & 0o077:
            tell(f"note: others can read {path}, and seal what they like: chmod 600 {shell_quoted(path)}")
    return key


def read_tally(path: str, plan: "Plan | None" = None, key: bytes | None = None) -> "PlanTally":
    """The tally in a file; of this plan, if one is given, and with claims that hold; sealed, if there is a key."""
    from dither.core.seals import is_sealed
    from dither.planning.plan_tally import PlanTally

    name = "standard input" if path == STREAM else path
    data, reason = read_bytes(path, "tally", "; dither tally PLAN REPORTS -o FILE writes one"), ""
    try:
        found = PlanTally.from_bytes(data, key=key)
        if plan is not None and found.plan == plan.fingerprint:
            plan.check_tally(found)
    except TallyError as error:
        found, reason = None, str(error)
    if found is None:
        raise TallyError(f"{name}: {reason}")
    if plan is not None and found.plan != plan.fingerprint:
        raise TallyError(
            f"{name} is a tally of plan {found.plan[:12]}, and this is plan {plan.fingerprint[:12]}: use the plan that "
            "its reports were made with"
        )
    if key is None and is_sealed(data):
        tell(f"note: {name} is sealed, and nobody has looked at the seal: --key FILE does")
    return found


def expanded(patterns: Sequence[str]) -> list[str]:
    """File names, where the shell has left a pattern as it is."""
    from dither.engines.paths import matched

    return [name for pattern in patterns for name in ([pattern] if pattern == STREAM else matched(pattern))]


def once_from_input(*paths: str | None) -> None:
    """Standard input can be read once."""
    if sum(path == STREAM for path in paths) > 1:
        raise ParameterError("standard input (-) can stand for one file only")


def _reason(error: OSError) -> str:
    return (error.strerror or "it is damaged").lower()


# What is written ---------------------------------------------------------------------------------------------------


def checked_output(path: str | None, inputs: Iterable[str], *, as_json: bool = False, binary: bool = False) -> None:
    """Refuse outputs that would destroy an input, or that two things would be written to."""
    if path is None:
        return
    if path == STREAM:
        if as_json:
            raise ParameterError("--json and -o - both write to standard output; name a file with -o")
        if sys.stdout is None:  # as after >&-
            raise ParameterError("standard output (-) is closed; name a file with -o")
        if binary and sys.stdout.isatty():
            raise ParameterError("this writes bytes, which a terminal cannot show; name a file with -o, or use a pipe")
        return
    for each in inputs:
        if each != STREAM and os.path.exists(each) and os.path.exists(path) and os.path.samefile(each, path):
            raise ParameterError(f"{path} is read by this command, so it cannot be its output; name another file")


def writable(*paths: str | None) -> None:
    """Refuse outputs that cannot be written, or are one file, before any work is done or any of them is there.

    What a run that was killed has left of them is removed, also if this run comes to nothing.
    """
    from dither.core.atomic_write import remove_abandoned

    places: dict[str, str] = {}
    for path in paths:
        if path is None or path == STREAM:
            continue
        place = os.path.realpath(path)
        if place in places:
            raise ParameterError(f"{places[place]} and {path} are the same file: give each output a file of its own")
        places[place] = path
        folder = os.path.dirname(place)
        if os.path.isdir(place):
            raise WriteError(f"cannot write {path}: it is a folder")
        if not os.path.isdir(folder):
            raise WriteError(f"cannot write {path}: no such file or directory. Make its folder first")
        replaced = not os.path.exists(place) or os.path.isfile(place)  # a device is written to, and not replaced
        if replaced and not os.access(folder, os.W_OK | os.X_OK):
            raise WriteError(f"cannot write {path}: permission denied in its folder")
        remove_abandoned(Path(place))


def wrote(output: str) -> str:
    """Where something is now, in words."""
    return "wrote them to standard output" if output == STREAM else f"wrote {output}"


def write(path: str, text: str) -> None:
    """A file of text, whole or not at all; or standard output."""
    write_raw(path, text.encode("utf-8"))


def write_raw(path: str, raw: bytes) -> None:
    """A file of bytes, whole or not at all; or standard output."""
    from dither.core.atomic_write import write_bytes

    if path != STREAM:
        write_bytes(path, raw)
        return
    with to_output():
        sys.stdout.buffer.write(raw)
        sys.stdout.buffer.flush()
