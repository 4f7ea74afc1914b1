"""The device: a mod that lets one randomized report out, and nothing else.

A mod stands between the training function and the network. The new parameters minus those that came in are the update,
one vector. It is clipped as a whole and randomized, and what leaves the device is that one report.

**What leaks beside parameters.** A reply may also hold metrics: the loss, how many examples there were, anything. Each
is a statistic of the device's data, without noise. The mod drops them all, apart from those that are declared `public`.
It answers no other kind of message (evaluation is a statistic too). Whatever the training function raises would be sent
as a text that may quote data, or would end the process; and that there was something tells something. So anything that
is raised, `SystemExit` and `KeyboardInterrupt` too, counts as an update of zero, as does one that is not finite or
cannot be read, and only its kind is told on the device (`federated.participation` says why, and how Ctrl-C works).
Every public metric is sent in every reply, as one float, and as NaN if there is none: the shape of a reply is always
the same. (That a public metric is missing is as public as its value. Where training may fail for a reason that nobody
should know, declare none, or let the training function always give one.) What remains is *when* a device answers, if
training takes longer with more data: where this matters, answer at fixed times.

**The budget** is kept in a ledger on the device's disk, for all runs together and for good: a device answers no more
rounds than it promised, whatever the server says, how many runs it starts, and whatever is lost, the context or the
process. The label of a round is the run and its number. A ledger keeps its last report: if the same round is asked
again, it is repeated to the bit, and costs nothing. A round before the last one is refused, and so is any when nothing
is left. All this depends on labels alone, and on no data.

**Without a ledger** (`no_budget_across_runs=True`) a device counts in its context, which belongs to one run and is kept
by the runtime. A server that starts a thousand runs, or a runtime that loses a context, gets a thousand times the
rounds, each with fresh noise, and their mean is the update itself. The guarantee is then that of one run.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from logging import ERROR, getLogger
from os import PathLike
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from numpy.typing import NDArray

from dither.core.checks import checked_count
from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.core.randomness import Stream
from dither.core.reports import Reports
from dither.errors import BudgetError, DomainError, LedgerError, ParameterError
from dither.learn.federated.participation import check_round, guarded, round_report
from dither.learn.flower.messages import (
    KEY,
    PUBLIC,
    TRAIN,
    ArrayShapes,
    checked_names,
    fingerprint,
    public_metrics,
    read_request,
    write_report,
)
from dither.learn.vector_reporter import VectorReporter
from dither.privacy.accounting.composition import compose
from dither.privacy.accounting.exact_sums import basic_composition
from dither.privacy.ledger import Ledger

FAILURES = ("zero", "raise")
_LOG = getLogger("flwr")  # where Flower tells what it does


@dataclass(frozen=True)
class Randomizer:
    """A mod for a Flower `ClientApp`: what leaves the device is one randomized report of the clipped update.

    `rounds` is how often this device answers, in all runs together. `ledger_path` is a file on the device, or a
    function of the context that names one, where it keeps what it has spent. (`epsilon`, `delta`) is the budget that a
    new ledger is made with, for all that the device ever sends; by default what these rounds cost. Without a ledger
    only a run is limited, and a server may start any number of them: `no_budget_across_runs=True` says that this is
    meant. `public` names metrics that are sent as they are, each as one number; give the strategy the same list.

    A `seed` makes simulated reports, which protect nobody and which a server refuses unless it is told. With it,
    `on_failure="raise"` lets exceptions of the training function, and about what it gives, through, for development:
    Flower sends their text to the server.

        app = ClientApp(mods=[Randomizer(reporter, rounds=10, ledger_path="/var/lib/app/ledger.db")])

    >>> reporter = VectorReporter("Hypercube", d=4, epsilon=0.5)
    >>> Randomizer(reporter, rounds=10, ledger_path="ledger.db").guarantee.epsilon
    5.0
    """

    reporter: VectorReporter
    rounds: int
    ledger_path: str | PathLike[str] | Callable[[Context], str | PathLike[str]] | None = None
    epsilon: float | None = None
    delta: float | None = None
    public: Sequence[str] = ()
    on_failure: str = "zero"
    seed: int | None = None
    no_budget_across_runs: bool = False

    def __post_init__(self) -> None:
        checked_count("rounds", self.rounds, 1, 1 << 20)
        fingerprint(self.reporter)
        if self.on_failure not in FAILURES:
            raise ParameterError(f"on_failure must be one of {', '.join(FAILURES)}")
        if self.on_failure == "raise" and self.seed is None:
            raise ParameterError(
                'on_failure="raise" sends the server what training says, which may quote data: it is for development, '
                "with simulated reports; give a seed, too"
            )
        if self.seed is not None and self.ledger_path is not None:
            raise ParameterError(
                "simulated reports protect nobody; the ledger keeps none: leave out seed, or ledger_path"
            )
        if self.ledger_path is None and (self.epsilon is not None or self.delta is not None):
            raise ParameterError("a budget for all runs together is kept in a ledger: give a ledger_path")
        if self.ledger_path is None and self.seed is None and self.no_budget_across_runs is not True:
            raise ParameterError(
                "without a ledger a server that starts another run, or loses the context, gets fresh reports without "
                'end: give a file on the device, ledger_path="/var/lib/app/ledger.db"; or say that this is meant, with '
                "no_budget_across_runs=True"
            )
        if self.ledger_path is not None and self.no_budget_across_runs:
            raise ParameterError("a ledger keeps a budget across runs: leave out ledger_path, or no_budget_across_runs")
        checked_names(self.public)

    @property
    def guarantee(self) -> Guarantee:
        """What all rounds promise together: of all runs, or, with `no_budget_across_runs`, of each run by itself."""
        if self.seed is not None:
            return NO_GUARANTEE
        return compose([(self.reporter.mechanism, self.rounds)])

    def __call__(self, message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
        """Train, and reply with a report; anything but a request to train gets an empty answer."""
        if message.metadata.message_type.partition(".")[0] != TRAIN:
            return Message(RecordDict(), reply_to=message)
        before, number = read_request(message, fingerprint(self.reporter))
        shape = ArrayShapes.of(before)
        if shape.size != self.reporter.d:
            raise ParameterError(
                f"the model has {shape.size:,} parameters, and the reporter is for {self.reporter.d:,}"
            )
        label = f"{context.run_id}/{number}"
        answered = self._answered(context, label)
        ledger = self._admitted(context, label, label in answered)
        start = shape.vector(before)
        reply = self._guarded(lambda: call_next(message, context), lambda: None)
        vector = self._guarded(lambda: self._inside(reply, shape, start), lambda: self._nothing(shape))
        public = self._guarded(lambda: self._public(reply), lambda: public_metrics(self.public, {}))
        report = self._report(vector, ledger, context, label)
        if label not in answered:
            context.state[KEY] = ConfigRecord({"rounds": " ".join([*answered, label])})
        content: dict[str, Any] = {KEY: write_report(report, fingerprint(self.reporter), number)}
        if public:
            content[PUBLIC] = MetricRecord(public)  # type: ignore[arg-type]
        return Message(RecordDict(content), reply_to=message)

    # Whether it answers: by what is public -----------------------------------------------------------------------

    def _answered(self, context: Context, label: str) -> list[str]:
        """The rounds that this context has answered; one beyond the schedule is refused.

        Reports are not kept here, so that a second answer would have to be paid for: only a ledger can repeat one.
        """
        answered = str(context.state.config_records.get(KEY, {}).get("rounds", "")).split()
        if label in answered and self.ledger_path is None:
            raise BudgetError("this round was answered already; a device with a ledger would repeat its report")
        if label not in answered and len(answered) >= self.rounds:
            raise BudgetError(f"all {self.rounds} rounds of this device are spent; it takes no part in another one")
        return answered

    def _admitted(self, context: Context, label: str, again: bool) -> Ledger | None:
        """The device's ledger, if it has a report for this round or one left to make; None without a ledger."""
        if self.ledger_path is None:
            return None
        with _told_here():
            path = self.ledger_path(context) if callable(self.ledger_path) else self.ledger_path
            whole = basic_composition(self.reporter.guarantee, self.rounds)
            epsilon, delta = self.epsilon, self.delta
            if not os.path.lexists(path):
                epsilon, delta = epsilon or whole.epsilon, whole.delta if delta is None else delta
            ledger = Ledger(path, epsilon, delta)
            if again and not ledger.keeps(self.reporter.mechanism, label):
                raise BudgetError("this round was answered, and another one after it: a ledger keeps its last report")
            check_round(ledger, self.reporter.mechanism, self.rounds, label)
            return ledger

    def _report(self, vector: NDArray, ledger: Ledger | None, context: Context, label: str) -> Reports:
        """The report that the ledger keeps for this round, or makes and charges; without one, a fresh report."""
        if ledger is not None:
            with _told_here(), ledger:
                return round_report(ledger, self.reporter.mechanism, label, vector)
        seed = None
        if self.seed is not None:
            seed = int(Stream.seeded(self.seed, "flower", str(context.node_id), label).below(1 << 62, 1)[0])
        return self.reporter.mechanism.randomize(vector, seed=seed)

    # What it answers: whatever the data are ----------------------------------------------------------------------

    def _guarded(self, work: Callable[[], Any], instead: Callable[[], Any]) -> Any:
        """`work` on what is private; whatever goes wrong with it must not show."""
        return work() if self.on_failure == "raise" else guarded(work, instead, _LOG)

    def _inside(self, reply: Message | None, shape: ArrayShapes, start: NDArray[np.float64]) -> NDArray:
        """The new parameters minus the old ones, clipped; none if they are not such as came in."""
        records = list(reply.content.array_records.values()) if reply is not None and reply.has_content() else []
        arrays = []
        if len(records) == 1 and tuple(records[0]) == shape.names:
            arrays = [array.numpy() for array in records[0].values()]
        if not arrays or tuple(array.shape for array in arrays) != shape.shapes:
            if self.on_failure == "raise":
                raise DomainError(
                    "the training function must reply with the arrays that it was given, of the same shapes"
                )
            return self._nothing(shape)
        with np.errstate(all="ignore"):
            update = np.concatenate([array.reshape(-1).astype(np.float64) for array in arrays]) - start
        return self.reporter.inside(update[None, :])

    def _nothing(self, shape: ArrayShapes) -> NDArray:
        """What the mechanism takes for no update."""
        return self.reporter.inside(np.zeros((1, shape.size)))

    def _public(self, reply: Message | None) -> dict[str, float]:
        """Each public metric as a float, NaN where there is none."""
        if reply is None or not reply.has_content():
            return public_metrics(self.public, {})
        told = {name: value for record in reply.content.metric_records.values() for name, value in record.items()}
        return public_metrics(self.public, told)


@contextmanager
def _told_here() -> Iterator[None]:
    """Where a ledger is and what is wrong with it is told on the device; the server hears what is public."""
    try:
        yield
    except (BudgetError, ParameterError):
        raise
    except Exception as error:
        _LOG.log(ERROR, "no report can be made: %s", error)
        raise LedgerError(
            "the ledger of this device cannot be used; nothing was sent. The log of the device says why"
        ) from None
