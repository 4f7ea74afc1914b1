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
from difflib import get_close_matches
from importlib import import_module
from types import FrameType

import click
from click.shell_completion import CompletionItem

import dither
from dither.cli.common import Stopped, close_output, printable
from dither.errors import DitherError, DitherWarning, RowError

_COMMANDS = {  # where each is, and the first sentence of its help, so that --help loads none of them
    "From records to answers, in this order": {
        "infer": ("planning", "Guess a schema from public or sample data, as a file to edit."),
        "plan": ("planning", "Plan a collection: the mechanisms, who is asked what, and the error that will come out."),
        "randomize": ("collecting", "Turn records into reports, as devices would."),
        "tally": ("collecting", "Count reports: the sums that estimates are made from."),
        "merge": ("merging", "Add up tallies of one plan, from several files or machines."),
        "next": ("next_phase", "Plan the second phase from the tally of the first."),
        "key": ("merging", "Write a key that tallies are sealed with."),
        "estimate": ("answering", "Estimate what was asked, each number with its error bar."),
        "top": (
            "ranking",
            "List the most frequent words or keys, the first with the largest share, each with its interval.",
        ),
        "rounds": (
            "round_results",
            "Estimate a collection over time: each round, what changed, and the mean over rounds.",
        ),
        "query": ("answering", "Answer conditions in the words of SQL, from a tally or in a trial."),
    },
    "Over a network": {
        "serve": ("serving", "Take reports over HTTP, store them durably, count each once, and serve live results."),
        "campaign": (
            "serving",
            "Look after the campaigns in a store: list, open, close or delete them, make and revoke tokens.",
        ),
        "send": ("sending", "Turn records into reports, and send them to a collector."),
        "shuffle": (
            "shuffling",
            "Mix sealed reports: forward them to the collector in batches, without names, order or times.",
        ),
        "keys": ("shuffling", "Make, list and expire the keys of a collector that reports are sealed to."),
        "export": ("exporting", "Write the raw batches that a collector keeps as Parquet files of reports."),
    },
    "Mechanisms, and what they promise": {
        "mechanisms": ("mechanisms", "List every mechanism with its parameters."),
        "certify": ("mechanisms", "Certify the sampler of a mechanism: exact epsilon and delta from its integers."),
        "audit": (
            "mechanisms",
            "Attack the sampler of a mechanism, and print what leaks at least beside what is promised at most.",
        ),
        "amplify": (
            "mechanisms",
            "What a shuffler adds: the guarantee of a crowd whose reports are shown in no order.",
        ),
        "compare": ("mechanisms", "Rank mechanisms by the error that will come out, without an experiment."),
        "statement": ("stating", "Say in plain words, for the people asked, what a plan asks, sends and reveals."),
    },
    "Models": {
        "train": ("train", "Train a linear model on records, each user with one private report."),
    },
    "Papers, measured again": {
        "reproduce": ("reproduce", "Measure figures, tables and claims of papers again."),
    },
    "A first look": {
        "demo": ("demo", "Go the whole way, from files of flights to a report, showing every command."),
        "example": ("demo", "Write real records to try things on: flights, as Parquet files."),
        "doctor": ("doctor", "Look at this installation: what is there, and what each missing extra is for."),
    },
}
_HOMES = {name: home for section in _COMMANDS.values() for name, (home, _) in section.items()}
_SENTENCES = {name: text for section in _COMMANDS.values() for name, (_, text) in section.items()}
_HABITS = {"help": "--help", "version": "--version"}  # commands elsewhere, options here

_SUBSTITUTES = "--invalid substitute puts the substitute of the schema there"


class _Group(click.Group):
    """A group that loads its commands when they are used, and whose errors are messages, not tracebacks."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_HOMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _HOMES:
            return None
        return getattr(import_module(f"dither.cli.{_HOMES[cmd_name]}"), cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(error.message + _nearest(args[0]), ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = formatter.width - 6 - max(map(len, _HOMES))
        for title, names in _COMMANDS.items():
            with formatter.section(title):
                lines = [(name, click.Command(name, help=text)) for name, (_, text) in names.items()]
                formatter.write_dl([(name, command.get_short_help_str(width)) for name, command in lines])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """What a shell completes: names of commands without loading any, since this runs at each press of Tab."""
        names = [CompletionItem(name, help=text) for name, text in _SENTENCES.items() if name.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)

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


def _nearest(name: str) -> str:
    """What was meant by a command that there is not, if something is near.

    >>> print(_nearest("estimat"), _nearest("help"), _nearest("fly"))
     Did you mean 'dither estimate'?  Did you mean 'dither --help'?
    """
    near = [_HABITS[name]] if name in _HABITS else get_close_matches(name, _HOMES, 2)
    known = " or ".join(f"'dither {found}'" for found in near)
    return f" Did you mean {known}?" if known else ""


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
