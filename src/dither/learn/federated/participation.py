"""Whether a device answers a round: by public facts alone, never because of its data.

**The budget.** A round is a *period* of the device's ledger (`privacy.ledger`): so many are reserved before the first
report, and one report is made for each label, whatever the data are. A label that is asked again gets the same report,
to the bit. When all rounds are used up a ledger alone would repeat its last report, and in another round that would be
one about another model: the device refuses instead (`BudgetError`). Labels and rounds are public, so the refusal is.

**Training runs the user's code on the user's data**, and may end in any way: by an exception, by `sys.exit()`, by a
`KeyboardInterrupt`, by a task that was cancelled. To pass any of them on would make the device fall silent, or send a
text that quotes data, because of what the data are. So whatever is raised counts as no update, and a report goes out
like any other (`guarded`). That includes a real Ctrl-C in the middle of training, since nobody can tell it from a
training function that raises the same: a person who presses it stops this training, not the report. To stop the device,
end it between rounds, or end its process; a loop that wants to hear Ctrl-C holds it back until the report is out
(`held_interrupts`).

**What is not covered**: a process that is killed in training (by the system for want of memory, by a fault in compiled
code, by `os._exit`) sends nothing. Where that may depend on the data, train in a process of its own.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from logging import WARNING, Logger
from typing import Any, TypeVar

from numpy.typing import NDArray

from dither.core.mechanism import Mechanism
from dither.core.reports import Reports
from dither.errors import BudgetError
from dither.privacy.ledger import Ledger

T = TypeVar("T")
_SPENT = (
    "the budget is spent: the ledger of this device has no round left for this, of {} for all runs together. It takes "
    "no part in more, and only its last report is repeated"
)


def guarded(work: Callable[[], T], instead: Callable[[], T], log: Logger) -> T:
    """`work` on what is private; whatever it raises must not show, and only its kind is told on the device.

    >>> from logging import getLogger
    >>> getLogger("quiet").disabled = True
    >>> guarded(lambda: exit("the patient in row 17"), lambda: "no update", getLogger("quiet"))
    'no update'
    """
    try:
        return work()
    except BaseException as error:  # SystemExit, KeyboardInterrupt, GeneratorExit and CancelledError, too
        with suppress(BaseException):  # a class may raise when it is asked for its name
            log.log(WARNING, "training failed (%s); a report of no update is sent instead", type(error).__name__)
    return instead()


def check_round(ledger: Ledger, mechanism: Mechanism, rounds: int, label: str) -> None:
    """Before anything is trained: reserve the rounds, and refuse one that is neither kept nor left."""
    ledger.reserve(mechanism, periods=rounds)
    if not ledger.has_round(mechanism, label):
        raise BudgetError(_SPENT.format(ledger.guarantee(mechanism)))


def round_report(ledger: Ledger, mechanism: Mechanism, label: str, vector: NDArray) -> Reports:
    """The report that the ledger keeps for this round, or a fresh one; whatever it is, it is on the disk."""
    report = ledger.report(mechanism, vector, period=label)
    if not ledger.keeps(mechanism, label):  # another process has used the last round up, or the disk is full
        raise BudgetError(_SPENT.format(ledger.guarantee(mechanism)))
    return report


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Ctrl-C waits for the end of the block: the report is out by then. A second one stops what is running at once.

    In the main thread, which alone hears signals; anywhere else it changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    before: Any = signal.getsignal(signal.SIGINT)

    def hold(number: int, _: Any) -> None:
        pressed.append(number)
        signal.signal(signal.SIGINT, before)

    if before is not None:  # None: set by compiled code, and not ours to put back
        signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
    if pressed:
        signal.raise_signal(signal.SIGINT)
