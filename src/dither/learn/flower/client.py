"""The device: a mod that lets one randomized report out, and nothing else.

A mod stands between the training function and the network. The new parameters minus those that came in are the update,
one vector. It is clipped as a whole and randomized, and what leaves the device is that one report.

**What leaks beside parameters.** A reply may also hold metrics: the loss, how many examples there were, anything. Each
is a statistic of the device's data, without noise. The mod drops them all, apart from those that are declared `public`.
It answers no other kind of message (evaluation is a statistic too). An exception of the training function would be sent
as a text that may quote data; and that there was one tells something. So it counts as an update of zero, as does one
that is not finite or cannot be read, and is only told on the device. Every public metric is sent in every reply, as one
float, and as NaN if there is none: the shape of a reply is always the same. (That a public metric is missing is as
public as its value. Where training may fail for a reason that nobody should know, declare none, or let the training
function always give one.) What remains is *when* a device answers, if training takes longer with more data: where this
matters, answer at fixed times.

**The budget.** A device refuses to answer more rounds than it promised, whatever the server says: it counts in its
context, and with a `ledger_path` in a ledger on its disk, for good. There the label of a round is the run and its
number. A ledger keeps its last report: if the same round is asked again, also by a server that has forgotten it or of a
device whose context is lost, it is repeated to the bit, and costs nothing. A round before the last one is refused.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from logging import WARNING, getLogger
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from numpy.typing import NDArray

from dither.core.checks import checked_count
from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.core.randomness import Stream
from dither.core.reports import Reports
from dither.errors import BudgetError, DomainError, ParameterError
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
from dither.privacy.ledger import Ledger
from dither.privacy.ledger.ledger import period_label
from dither.privacy.ledger.store import keyed

FAILURES = ("zero", "raise")
_LOG = getLogger("flwr")  # where Flower tells what it does


@dataclass(frozen=True)
class Randomizer:
    """A mod for a Flower `ClientApp`: what leaves the device is one randomized report of the clipped update.

    `rounds` is how often this device answers in one run. `ledger_path` is a file, or a function of the context that
    names one, where the device keeps what it has spent, with (`epsilon`, `delta`) for all runs together; by default
    that is what these rounds cost. `public` names metrics that are sent as they are, each as one number; give the
    strategy the same list. `on_failure="raise"` lets exceptions of the training function, and about what it gives,
    through, for development. A `seed` makes simulated reports, which protect nobody and which a server refuses unless
    it is told.

        app = ClientApp(mods=[Randomizer(reporter, rounds=10, ledger_path="ledger.db")])

    >>> Randomizer(VectorReporter("Hypercube", d=4, epsilon=0.5), rounds=10).guarantee.epsilon
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

    def __post_init__(self) -> None:
        checked_count("rounds", self.rounds, 1, 1 << 20)
        fingerprint(self.reporter)
        if self.on_failure not in FAILURES:
            raise ParameterError(f"on_failure must be one of {', '.join(FAILURES)}")
        if self.seed is not None and self.ledger_path is not None:
            raise ParameterError(
                "simulated reports protect nobody; the ledger keeps none: leave out seed, or ledger_path"
            )
        if self.ledger_path is None and (self.epsilon is not None or self.delta is not None):
            raise ParameterError("a budget for all runs together is kept in a ledger: give a ledger_path")
        checked_names(self.public)

    @property
    def guarantee(self) -> Guarantee:
        """What all rounds of a run promise together."""
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
        start = shape.vector(before)
        reply = self._trained(message, context, call_next)
        vector = self._guarded(lambda: self._inside(reply, shape, start), lambda: self._nothing(shape))
        public = self._guarded(lambda: self._public(reply), lambda: public_metrics(self.public, {}))
        report = self._report(vector, context, label, label in answered)
        if label not in answered:
            context.state[KEY] = ConfigRecord({"rounds": " ".join([*answered, label])})
        content: dict[str, Any] = {KEY: write_report(report, fingerprint(self.reporter), number)}
        if public:
            content[PUBLIC] = MetricRecord(public)  # type: ignore[arg-type]
        return Message(RecordDict(content), reply_to=message)

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

    def _guarded(self, work: Callable[[], Any], instead: Callable[[], Any]) -> Any:
        """`work` on what is private; whatever goes wrong with it must not show."""
        if self.on_failure == "raise":
            return work()
        try:
            return work()
        except Exception as error:
            _LOG.log(WARNING, "training failed (%s); a report of no update is sent instead", type(error).__name__)
        return instead()

    def _trained(self, message: Message, context: Context, call_next: Any) -> Message | None:
        return self._guarded(lambda: call_next(message, context), lambda: None)

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

    def _report(self, vector: NDArray, context: Context, label: str, again: bool) -> Reports:
        if self.ledger_path is not None:
            return self._kept(vector, context, label, again)
        seed = None
        if self.seed is not None:
            seed = int(Stream.seeded(self.seed, "flower", str(context.node_id), label).below(1 << 62, 1)[0])
        return self.reporter.mechanism.randomize(vector, seed=seed)

    def _kept(self, vector: NDArray, context: Context, label: str, again: bool) -> Reports:
        """The report that the ledger keeps for this round, or makes and charges.

        When all that was reserved is used up, a ledger repeats its last report. In another round that would be one
        about another model: the device refuses instead. The periods are public, and so is the refusal.
        """
        with self._ledger(context) as ledger:
            repeated = self._is_last(ledger, label)
            if again and not repeated:
                raise BudgetError("this round was answered, and another one after it: a ledger keeps its last report")
            spent = ledger.spent
            report = ledger.report(self.reporter.mechanism, vector, period=label)
            if not repeated and ledger.spent == spent:
                raise BudgetError("the ledger of this device has no round left; it takes no part in this one")
            return report

    def _is_last(self, ledger: Ledger, label: str) -> bool:
        """Whether the report that the ledger keeps was made for this round: the file knows, whatever a context says."""
        plan = self.reporter.mechanism.fingerprint
        with ledger._book() as book:
            kept = book.answers.get(plan, {}).get("")
            return kept is not None and kept.made_for == keyed(book.key, plan, "", period_label(label) or b"")

    def _ledger(self, context: Context) -> Ledger:
        """The device's ledger, with the rounds reserved."""
        path = str(self.ledger_path(context) if callable(self.ledger_path) else self.ledger_path)
        whole = self.guarantee
        epsilon, delta = self.epsilon, self.delta
        if not Path(path).exists():
            epsilon, delta = epsilon or whole.epsilon, whole.delta if delta is None else delta
        ledger = Ledger(path, epsilon, delta)
        try:
            ledger.guarantee(self.reporter.mechanism)
        except ParameterError:  # nothing is reserved yet
            ledger.reserve(self.reporter.mechanism, periods=self.rounds)
        return ledger
