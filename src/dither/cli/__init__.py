"""The `dither` command: from a file of records to answers, without code.

Commands live in modules by theme, and are imported when they are used: `dither --version` loads neither NumPy nor
Arrow. What they share:

- **Two streams.** Results go to standard output, and with `--json` they are facts for machines. Notes, warnings and
  progress go to standard error. A file named `-` is standard input or output.
- **Exit codes.** 0: done. 1: refused, with a message that says what to do. 2: the command was not understood. 130:
  stopped by Ctrl-C (or SIGTERM).
- **Files** appear whole or not at all.
- **No raw value** is ever printed. An error of dither never holds one; that of another library may, as in "cannot
  parse 'Alice'". So an error that nobody foresaw is told by its kind and its place, and its own words only if
  `DITHER_TRACEBACK=1` asks for them.
"""

import os
import signal
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FrameType

import click

import dither
from dither.cli.common import Stopped, close_output, printable
from dither.errors import DitherError, DitherWarning, RowError

_COMMANDS = {
    "From records to answers, in this order": {
        "infer": "planning",
        "plan": "planning",
        "randomize": "collecting",
        "tally": "collecting",
        "merge": "merging",
        "next": "next_phase",
        "key": "merging",
        "estimate": "answering",
        "top": "ranking",
        "rounds": "round_results",
        "query": "answering",
    },
    "Over a network": {
        "serve": "serving",
        "campaign": "serving",
        "send": "sending",
        "shuffle": "shuffling",
        "keys": "shuffling",
        "export": "exporting",
    },
    "Mechanisms, and what they promise": {
        "mechanisms": "mechanisms",
        "certify": "mechanisms",
        "audit": "mechanisms",
        "amplify": "mechanisms",
        "compare": "mechanisms",
        "statement": "stating",
    },
    "Models": {"train": "train"},
    "Papers, measured again": {"reproduce": "reproduce"},
    "A first look": {"demo": "demo", "example": "demo"},
}
_HOMES = {name: home for section in _COMMANDS.values() for name, home in section.items()}


_SUBSTITUTES = "--invalid substitute puts the substitute of the schema there"


class _Group(click.Group):
    """A group that loads its commands when they are used, and whose errors are messages, not tracebacks."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_HOMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _HOMES:
            return None
        return getattr(import_module(f"dither.cli.{_HOMES[cmd_name]}"), cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = formatter.width - 6 - max(map(len, _HOMES))
        for title, names in _COMMANDS.items():
            found = {name: self.get_command(ctx, name) for name in names}
            with formatter.section(title):
                formatter.write_dl([(name, each.get_short_help_str(width)) for name, each in found.items() if each])

    def invoke(self, ctx: click.Context) -> object:
        with _stoppable(), _warnings_told():
            try:
                return super().invoke(ctx)
            except RowError as error:
                raise click.ClickException(printable(str(error.but(substitute=_SUBSTITUTES)))) from None
            except DitherError as error:
                raise click.ClickException(printable(_with_options(str(error)))) from None
            except KeyboardInterrupt:
                raise Stopped("stopped; no unfinished file is left") from None
            except BrokenPipeError:  # whoever read standard output has had enough, as in: dither ... | head
                close_output()
                ctx.exit(1)
            except (click.ClickException, click.exceptions.Exit, click.Abort):
                raise
            except Exception as error:
                if os.environ.get("DITHER_TRACEBACK"):
                    raise
                raise click.ClickException(_unforeseen(error)) from None


@click.group(cls=_Group)
@click.version_option(dither.__version__, prog_name="dither")
def main() -> None:
    """Collect data under local differential privacy, with exact guarantees."""


def _with_options(text: str) -> str:
    """What an error of the library advises, in the words of the command."""
    options = {'invalid_reports="drop"': "--invalid-reports drop", "allow_simulated=True": "--allow-simulated"}
    for argument, option in options.items():
        text = text.replace(argument, option)
    return text


@contextmanager
def _stoppable() -> Iterator[None]:
    """While a command runs, SIGTERM stops it as Ctrl-C does: nothing half done is left."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _warnings_told() -> Iterator[None]:
    """Warnings as messages, at the end."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DitherWarning)
        try:
            yield
        finally:
            for warning in caught:
                click.echo(printable(f"Warning: {warning.message}"), err=True)


def _unforeseen(error: Exception) -> str:
    """Its kind and its place, and not its words, which may quote a record."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if f"{os.sep}dither{os.sep}" in frame.filename]
    where = f" at {os.path.basename(own[-1].filename)}, line {own[-1].lineno}" if own else ""
    return (
        f"something that dither did not foresee: {type(error).__name__}{where}. Its message is not shown, since it may "
        "quote a record; DITHER_TRACEBACK=1 shows all of it. Please report this."
    )
