"""Progress of long work, on a terminal: what is done, how fast, and when it will be over.

There is one way to show it. It goes to standard error, so that results can be piped; where nobody looks (a file, a
pipe, a log) nothing is drawn at all. Work that knows its size gets a bar and the time that is left; work that does not,
such as a stream from standard input, gets a count and its speed.

Speed is that since the first piece was done. What came before is not like the rest: compilers start, and a run that
goes on where another was stopped has most of it done at once.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

T = TypeVar("T")
Advance = Callable[[int], None]
_BAR = 20
_MANY = 10_000_000  # are told in millions: a line must fit 80 columns
_SURE = 1.0  # seconds until a speed is told


@contextmanager
def progress(
    description: str, total: int | None = None, *, unit: str = "rows", console: "Console | None" = None
) -> Iterator[Advance]:
    """A function to call with how much was done since the last call.

    >>> with progress("Tallying", 3) as advance:
    ...     for _ in range(3):
    ...         advance(1)
    """
    if console is None:
        from rich.console import Console

        console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda count: None
        return
    pace = Pace()
    with _drawn(console, total is not None) as bar:
        task = bar.add_task(description, total=total, unit=unit, speed=None)

        def advance(count: int) -> None:
            bar.update(task, advance=count, speed=pace.after(count, time.monotonic()))

        yield advance


def track(description: str, unit: str = "steps") -> Callable[[Iterable[T]], Iterator[T]]:
    """Wraps what is worked through one by one, as `rich.progress.track` does.

    >>> [step * step for step in track("Squaring")([1, 2, 3])]
    [1, 4, 9]
    """

    def through(items: Iterable[T]) -> Iterator[T]:
        known = items if isinstance(items, Sized) else list(items)
        with progress(description, len(known), unit=unit) as advance:
            for item in known:
                yield item
                advance(1)

    return through


@dataclass
class Pace:
    """How fast work goes on, since its first piece was done.

    >>> pace = Pace()
    >>> [pace.after(count, now) for count, now in ((900, 5.0), (100, 5.1), (100, 7.0))]
    [None, None, 100.0]
    """

    began: float | None = None
    done: int = 0

    def after(self, count: int, now: float) -> float | None:
        """The speed when another `count` is done; None as long as it is too early to tell."""
        if self.began is None:
            self.began = now
            return None
        self.done += count
        return self.done / (now - self.began) if now - self.began >= _SURE else None


def _drawn(console: "Console", sized: bool) -> "Progress":
    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
    from rich.text import Text

    class Done(ProgressColumn):
        """As in "12,000 of 100,000 rows"."""

        def render(self, task: Task) -> Text:
            whole = "" if task.total is None else f" of {_count(task.total)}"
            return Text(f"{_count(task.completed)}{whole} {task.fields['unit']}")

    class Speed(ProgressColumn):
        """As in "5.1M/s"."""

        def render(self, task: Task) -> Text:
            speed = task.fields["speed"]
            return Text("" if speed is None else f"{short(speed)}/s")

    class Left(ProgressColumn):
        """As in "0:00:12"."""

        def render(self, task: Task) -> Text:
            speed, left = task.fields["speed"], task.remaining
            return Text("" if left is None or not speed else str(timedelta(seconds=round(left / speed))))

    ends = [BarColumn(_BAR), Done(), Speed(), Left()] if sized else [SpinnerColumn(), Done(), Speed()]
    return Progress(TextColumn("{task.description}"), *ends, console=console, transient=True)


def _count(number: float) -> str:
    return f"{number:,.0f}" if number < _MANY else short(number)


def short(number: float) -> str:
    """A number that changes all the time, in few digits.

    >>> [short(number) for number in (3.14159, 271, 8_100, 5_123_456, 7.7e9)]
    ['3.1', '271', '8.1k', '5.1M', '7.7G']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f}{letter}"
    return f"{number:.0f}" if number >= 10 else f"{number:.1f}"
