"""The device: a mod that lets one randomized report out, and nothing else.

A mod stands between the training function and the network. The new parameters minus those that came in are the update,
one vector. It is clipped as a whole and randomized, and what leaves the device is that one report.

**What leaks beside parameters.** A reply may also hold metrics: the loss, how many examples there were, anything. Each
is a statistic of the device's data, without noise. The mod drops them all, apart from those that are declared `public`.
It answers no other kind of message (evaluation is a statistic too). An exception of the training function would be sent
as a text that may quote data; and that there was one tells something. So it counts as an update of zero, as does one
that is not finite, and is only told on the device. What remains is *when* a device answers, if training takes longer
with more data: where this matters, answer at fixed times.

**The budget.** A device refuses to answer more rounds than it promised, whatever the server says: it counts in its
context, and with a `ledger_path` in a ledger on its disk, for good. There the label of a round is the run and its
number, so that a round that is asked twice gets the same report twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from logging import WARNING, getLogger
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from numpy.typing import NDArray

from dither.core.checks import checked_count
from dither.core.errors import DomainError, ParameterError
from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.core.reports import Reports
from dither.learn.envelope import Envelope
from dither.learn.flower.wire import KEY, PUBLIC, TRAIN, Shape, asked, fingerprint, sealed
from dither.privacy.composition import compose
from dither.privacy.ledger import BudgetError, Ledger
from dither.randomness import Stream

FAILURES = ("zero", "raise")
_LOG = getLogger("flwr")  # where Flower tells what it does


@dataclass(frozen=True)
class Randomizer:
    """A mod for a Flower `ClientApp`: what leaves the device is one randomized report of the clipped update.

    `rounds` is how often this device answers in one run. `ledger_path` is a file, or a function of the context that
    names one, where the device keeps what it has spent, with (`epsilon`, `delta`) for all runs together; by default
    that is what these rounds cost. `public` names metrics that may be sent as they are. `on_failure="raise"` lets
    exceptions of the training function through, for development. A `seed` makes simulated reports, which protect
    nobody and which a server refuses unless it is told.

        app = ClientApp(mods=[Randomizer(envelope, rounds=10, ledger_path="ledger.db")])

    >>> Randomizer(Envelope("Hypercube", d=4, epsilon=0.5), rounds=10).guarantee.epsilon
    5.0
    """

    envelope: Envelope
    rounds: int
    ledger_path: str | PathLike[str] | Callable[[Context], str | PathLike[str]] | None = None
    epsilon: float | None = None
    delta: float | None = None
    public: Sequence[str] = ()
    on_failure: str = "zero"
    seed: int | None = None

    def __post_init__(self) -> None:
        checked_count("rounds", self.rounds, 1, 1 << 20)
        fingerprint(self.envelope)
        if self.on_failure not in FAILURES:
            raise ParameterError(f"on_failure must be one of {', '.join(FAILURES)}")
        if self.seed is not None and self.ledger_path is not None:
            raise ParameterError(
                "simulated reports protect nobody; the ledger keeps none: leave out seed, or ledger_path"
            )
        if self.ledger_path is None and (self.epsilon is not None or self.delta is not None):
            raise ParameterError("a budget for all runs together is kept in a ledger: give a ledger_path")
        if isinstance(self.public, str):
            raise ParameterError('public is a list of names of metrics, as in public=["num-examples"]')

    @property
    def guarantee(self) -> Guarantee:
        """What all rounds of a run promise together."""
        if self.seed is not None:
            return NO_GUARANTEE
        return compose([(self.envelope.mechanism, self.rounds)])

    def __call__(self, message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
        """Train, and reply with a report; anything but a request to train gets an empty answer."""
        if message.metadata.message_type.partition(".")[0] != TRAIN:
            return Message(RecordDict(), reply_to=message)
        before, number = asked(message, fingerprint(self.envelope))
        shape = Shape.of(before)
        if shape.size != self.envelope.d:
            raise ParameterError(
                f"the model has {shape.size:,} parameters, and the envelope is for {self.envelope.d:,}"
            )
        label = f"{context.run_id}/{number}"
        new = self._counted(context, label)
        start = shape.vector(before)
        reply = self._trained(message, context, call_next)
        report = self._report(self._update(reply, shape, start), context, label, new)
        content: dict[str, Any] = {KEY: sealed(report, fingerprint(self.envelope), number)}
        shown = self._shown(reply)
        if shown:
            content[PUBLIC] = MetricRecord(shown)
        return Message(RecordDict(content), reply_to=message)

    def _counted(self, context: Context, label: str) -> bool:
        """Whether this round is a new one; beyond the schedule it is refused.

        Reports are not kept here, so that a second answer would have to be paid for: only a ledger can repeat one.
        """
        answered = str(context.state.config_records.get(KEY, {}).get("rounds", "")).split()
        if label in answered and self.ledger_path is None:
            raise BudgetError("this round was answered already; a device with a ledger would repeat its report")
        if label not in answered and len(answered) >= self.rounds:
            raise BudgetError(f"all {self.rounds} rounds of this device are spent; it takes no part in another one")
        if label in answered:
            return False
        context.state[KEY] = ConfigRecord({"rounds": " ".join([*answered, label])})
        return True

    def _trained(self, message: Message, context: Context, call_next: Any) -> Message | None:
        if self.on_failure == "raise":
            return call_next(message, context)
        try:
            return call_next(message, context)
        except Exception as error:  # whatever it is, it must not show
            _LOG.log(WARNING, "training failed (%s); a report of no update is sent instead", type(error).__name__)
            return None

    def _update(self, reply: Message | None, shape: Shape, start: NDArray[np.float64]) -> NDArray[np.float64]:
        """The new parameters minus the old ones; zero if there are none, or not such as came in."""
        update = None
        if reply is not None and reply.has_content():
            records = list(reply.content.array_records.values())
            if len(records) == 1 and tuple(records[0]) == shape.names:
                update = self._difference(records[0], shape, start)
        if update is None and self.on_failure == "raise":
            raise DomainError("the training function must reply with the arrays that it was given, of the same shapes")
        return np.zeros(shape.size) if update is None else update

    @staticmethod
    def _difference(record: ArrayRecord, shape: Shape, start: NDArray[np.float64]) -> NDArray[np.float64] | None:
        try:
            arrays = [array.numpy() for array in record.values()]
            if tuple(array.shape for array in arrays) != shape.shapes:
                return None
            with np.errstate(all="ignore"):
                return np.concatenate([array.reshape(-1).astype(np.float64) for array in arrays]) - start
        except (TypeError, ValueError):
            return None

    def _report(self, update: NDArray[np.float64], context: Context, label: str, new: bool) -> Reports:
        if self.ledger_path is not None:
            return self._kept(update, context, label, new)
        seed = None
        if self.seed is not None:
            seed = int(Stream.seeded(self.seed, "flower", str(context.node_id), label).below(1 << 62, 1)[0])
        return self.envelope.randomize(update[None, :], seed=seed)

    def _kept(self, update: NDArray[np.float64], context: Context, label: str, new: bool) -> Reports:
        """The report that the ledger keeps for this round, or makes and charges.

        When all that was reserved is used up, a ledger repeats its last report. In a new round that would be one about
        another model: the device refuses instead. The periods are public, and so is the refusal.
        """
        with self._ledger(context) as ledger:
            spent = ledger.spent
            report = ledger.report(self.envelope.mechanism, self.envelope.inside(update[None, :]), period=label)
            if new and ledger.spent == spent:
                raise BudgetError("the ledger of this device has no round left; it takes no part in this one")
            return report

    def _ledger(self, context: Context) -> Ledger:
        """The device's ledger, with the rounds reserved."""
        path = str(self.ledger_path(context) if callable(self.ledger_path) else self.ledger_path)
        whole = self.guarantee
        epsilon, delta = self.epsilon, self.delta
        if not Path(path).exists():
            epsilon, delta = epsilon or whole.epsilon, whole.delta if delta is None else delta
        ledger = Ledger(path, epsilon, delta)
        try:
            ledger.guarantee(self.envelope.mechanism)
        except ParameterError:  # nothing is reserved yet
            ledger.reserve(self.envelope.mechanism, periods=self.rounds)
        return ledger

    def _shown(self, reply: Message | None) -> dict[str, Any]:
        if reply is None or not reply.has_content() or not self.public:
            return {}
        metrics = list(reply.content.metric_records.values())
        return {name: record[name] for record in metrics for name in self.public if name in record}
