"""Flower: the device randomizes in a mod, the server debiases in a strategy.

Flower runs federated learning over real devices. A client's *mod* stands between the training function and the
network; a server's *strategy* says what is sent and how replies are put together. The two here are the ends of one
`Envelope`:

- `Randomizer` (device): the new parameters minus those that came in are the update, one vector. It is clipped as a
  whole and randomized, and what leaves the device is that one report, with the fingerprint of the envelope.
- `Debiasing` (server): checks each report, tallies them, estimates the mean of the clipped updates, and moves the model
  by it: arrays + rate * mean. Every device has the same weight.

**What leaks beside parameters.** A reply may also hold metrics: the loss, how many examples there were, anything. Each
is a statistic of the device's data, without noise. The mod drops them all, apart from those that are declared `public`.
It answers no other kind of message (evaluation is a statistic too). An exception of the training function would be sent
as a text that may quote data; and that there was one tells something. So it counts as an update of zero, as does one
that is not finite, and is only told on the device. What remains is *when* a device answers, if training takes longer
with more data: where this matters, answer at fixed times.

**The budget** is a public schedule: so many rounds, each with one report of the envelope's guarantee, and all together
what `compose` says. Both ends count. The server refuses to ask once more (`BudgetError`), and a device refuses to
answer, whatever the server says: it counts in its context, and with a `ledger_path` in a ledger on its disk, for good.
There the label of a round is the run and its number, so that a round that is asked twice gets the same report twice.

A server is not trusted with anything: it names the fingerprint of the envelope that it expects, and a device with
another one refuses. It cannot choose epsilon.
"""

import hashlib
import json
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from logging import INFO, WARNING, getLogger
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_real
from dither.core.errors import DomainError, EmptyError, MissingExtraError, ParameterError, ReportError, require
from dither.core.estimate import Estimate
from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.core.mechanism import Mechanism
from dither.core.reports import Reports
from dither.learn.envelope import Envelope
from dither.privacy.composition import compose
from dither.privacy.ledger import BudgetError, Ledger
from dither.randomness import Stream
from dither.show.table import Table

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of what Flower imports: not for our users to mend
    require("flwr.serverapp", "federated")
    from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
    from flwr.serverapp import Grid
    from flwr.serverapp.strategy import Strategy

if TYPE_CHECKING:
    from flwr.clientapp import ClientApp

FORMAT = "dither report 1"
KEY, TRAIN = "dither", "train"
PLAN, ROUND = "dither-plan", "server-round"
FAILURES = ("zero", "raise")
_WAIT = 1.0  # seconds between two looks for devices
_LOG = getLogger("flwr")  # where Flower tells what it does


def fingerprint(envelope: Envelope) -> str:
    """A hash of all that both ends must agree on: the mechanism with its integers, and how vectors are clipped.

    >>> one, other = (Envelope("Hypercube", d=4, epsilon=1.0, clip=clip) for clip in (1.0, 2.0))
    >>> fingerprint(one) == fingerprint(Envelope("Hypercube", d=4, epsilon=1.0)), fingerprint(one) == fingerprint(other)
    (True, False)
    """
    if not is_dataclass(envelope) or not isinstance(getattr(envelope, "mechanism", None), Mechanism):
        raise ParameterError('give an envelope, as in Envelope("UnitVector", d=100, epsilon=1.0)')
    parts = {each.name: getattr(envelope, each.name) for each in fields(envelope)}
    told = {name: part.fingerprint if isinstance(part, Mechanism) else repr(part) for name, part in parts.items()}
    text = json.dumps({"envelope": type(envelope).__name__, **told}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


# The model as one vector ---------------------------------------------------------------------------------------------


class _Shape(NamedTuple):
    """How a record of arrays becomes one vector, and back."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    kinds: tuple[str, ...]

    @classmethod
    def of(cls, record: ArrayRecord) -> "_Shape":
        arrays = {name: array.numpy() for name, array in record.items()}
        for name, array in arrays.items():
            if array.dtype.kind != "f":
                raise ParameterError(
                    f"array {name} holds no floating point numbers: send trainable parameters only (the counters of a "
                    "batch normalisation are none; use a group or layer normalisation)"
                )
        return cls(
            tuple(arrays),
            tuple(array.shape for array in arrays.values()),
            tuple(array.dtype.str for array in arrays.values()),
        )

    @property
    def size(self) -> int:
        return sum(int(np.prod(shape, dtype=int)) for shape in self.shapes)

    def vector(self, record: ArrayRecord) -> NDArray[np.float64]:
        """All numbers in one row."""
        return np.concatenate([array.numpy().reshape(-1).astype(np.float64) for array in record.values()])

    def record(self, vector: NDArray[np.float64]) -> ArrayRecord:
        """The inverse of `vector`, in the types that the arrays had."""
        sizes = [int(np.prod(shape, dtype=int)) for shape in self.shapes]
        parts = np.split(vector, np.cumsum(sizes)[:-1])
        made = (
            part.reshape(shape).astype(kind) for part, shape, kind in zip(parts, self.shapes, self.kinds, strict=True)
        )
        return ArrayRecord({name: Array(part) for name, part in zip(self.names, made, strict=True)})


# The device ----------------------------------------------------------------------------------------------------------


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
        before, number = self._asked(message)
        shape = _Shape.of(before)
        if shape.size != self.envelope.d:
            raise ParameterError(
                f"the model has {shape.size:,} parameters, and the envelope is for {self.envelope.d:,}"
            )
        label = f"{context.run_id}/{number}"
        new = self._counted(context, label)
        start = shape.vector(before)
        reply = self._trained(message, context, call_next)
        report = self._report(self._update(reply, shape, start), context, label, new)
        content: dict[str, Any] = {KEY: ConfigRecord(self._sealed(report, number))}
        shown = self._shown(reply)
        if shown:
            content["public"] = MetricRecord(shown)
        return Message(RecordDict(content), reply_to=message)

    def _asked(self, message: Message) -> tuple[ArrayRecord, int]:
        """The parameters that came in, and the number of the round. All of it is public, so errors may say so."""
        content = message.content
        arrays, configs = list(content.array_records.values()), list(content.config_records.values())
        told = configs[0] if len(configs) == 1 else {}
        number = told.get(ROUND)
        if len(arrays) != 1 or isinstance(number, bool) or not isinstance(number, int):
            raise ParameterError("the server must send one record of arrays and the number of the round: use Debiasing")
        if told.get(PLAN) != fingerprint(self.envelope):
            raise ParameterError("the server expects reports of another envelope: give both ends the same one")
        return arrays[0], number

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

    def _update(self, reply: Message | None, shape: _Shape, start: NDArray[np.float64]) -> NDArray[np.float64]:
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
    def _difference(record: ArrayRecord, shape: _Shape, start: NDArray[np.float64]) -> NDArray[np.float64] | None:
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

    def _sealed(self, report: Reports, number: int) -> dict[str, Any]:
        return {
            "format": FORMAT,
            PLAN: fingerprint(self.envelope),
            ROUND: number,
            "simulated": bool(report.simulated),
            "report": np.asarray(report).tobytes(),
        }

    def _shown(self, reply: Message | None) -> dict[str, Any]:
        if reply is None or not reply.has_content() or not self.public:
            return {}
        metrics = list(reply.content.metric_records.values())
        return {name: record[name] for record in metrics for name in self.public if name in record}


# The server ----------------------------------------------------------------------------------------------------------


class Debiasing(Strategy):
    """A strategy for a Flower `ServerApp`: it estimates the mean update from randomized reports, and applies it.

    `rounds` is the public schedule, and `guarantee` what it costs each device at most. `rate` is the server's learning
    rate. Each round asks a `fraction` of the devices, drawn at random, and waits for at least `least` to be there, for
    `patience` seconds. `simulated=True` also takes reports that were made from a seed.

        Debiasing(envelope, rounds=10).start(grid, initial_arrays=ArrayRecord(model.state_dict()), num_rounds=10)

    >>> print(Debiasing(Envelope("Hypercube", d=4, epsilon=0.5), rounds=4).guarantee)
    epsilon 2 (exact)
    """

    def __init__(
        self,
        envelope: Envelope,
        *,
        rounds: int,
        rate: float = 1.0,
        fraction: float = 1.0,
        least: int = 2,
        patience: float = 600.0,
        delta: float = 0.0,
        simulated: bool = False,
    ) -> None:
        self.plan = fingerprint(envelope)
        self.envelope, self.simulated = envelope, bool(simulated)
        self.rounds = checked_count("rounds", rounds, 1, 1 << 20)
        self.least = checked_count("least", least, 1)
        self.rate, self.fraction = checked_real("rate", rate), checked_real("fraction", fraction)
        self.patience, self.delta = checked_real("patience", patience), delta
        if not self.rate > 0 or not 0 < self.fraction <= 1:
            raise ParameterError("rate must be above 0, and fraction above 0 and at most 1")
        self.estimates: list[Estimate] = []
        self._refused: list[Counter[str]] = []
        self._asked: dict[int, tuple[ArrayRecord, frozenset[int]]] = {}

    def __repr__(self) -> str:
        return f"Debiasing({self.envelope!r}, rounds={self.rounds})"

    # The budget --------------------------------------------------------------------------------------------------

    @property
    def guarantee(self) -> Guarantee:
        """What a device is promised that answers every round of the schedule."""
        return NO_GUARANTEE if self.simulated else compose([(self.envelope.mechanism, self.rounds)], delta=self.delta)

    @property
    def spent(self) -> Guarantee:
        """What the rounds that were asked for have cost a device that answered all of them."""
        if self.simulated or not self._asked:
            return NO_GUARANTEE if self.simulated else Guarantee(0.0)
        return compose([(self.envelope.mechanism, len(self._asked))], delta=self.delta)

    def table(self) -> Table:
        """One row a round: how many reports there were, how many were refused, and how exact the mean is."""
        return Table(
            {
                "round": [place + 1 for place in range(len(self.estimates))],
                "reports": [each.n for each in self.estimates],
                "refused": [sum(counter.values()) for counter in self._refused],
                "standard error": [float(np.sqrt((each.stderr**2).mean())) for each in self.estimates],
            }
        )

    def explain(self) -> str:
        """In words: what is promised, and what has happened."""
        words = Counter[str]()
        for counter in self._refused:
            words.update(counter)
        refused = "; ".join(f"{count:,} x {reason}" for reason, count in sorted(words.items()))
        return "\n".join(
            [
                f"Each report: {NO_GUARANTEE if self.simulated else self.envelope.guarantee}.",
                f"A device that answers all {self.rounds} rounds: {self.guarantee}.",
                f"Asked for so far: {len(self._asked)} rounds, {self.spent}.",
                f"Refused: {refused or 'nothing'}.",
            ]
        )

    # What Flower calls ---------------------------------------------------------------------------------------------

    def summary(self) -> None:
        """Log what is promised."""
        for line in self.explain().splitlines():
            _LOG.log(INFO, "\t%s", line)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages of a round: the model, the number of the round, and which reports are expected."""
        if len(self._asked) >= self.rounds:
            raise BudgetError(
                f"the schedule has {self.rounds} rounds ({self.guarantee}), and all are spent. "
                "A longer schedule must be announced before the first round, with a smaller epsilon for each"
            )
        if server_round in self._asked:
            raise BudgetError("this round was asked for already; whoever answers twice pays twice")
        size = _Shape.of(arrays).size
        if size != self.envelope.d:
            raise ParameterError(f"the model has {size:,} parameters, and the envelope is for {self.envelope.d:,}")
        chosen = self._chosen(grid)
        self._asked[server_round] = (arrays, frozenset(chosen))
        sent = ConfigRecord({**config, ROUND: server_round, PLAN: self.plan})
        content = RecordDict({"arrays": arrays, "config": sent})
        return [Message(content, dst_node_id=node, message_type=TRAIN) for node in chosen]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The model after this round. Replies that no honest device can have sent are refused, and counted."""
        if server_round not in self._asked:
            raise ParameterError("nothing was asked for in this round: configure it first")
        arrays, nodes = self._asked[server_round]
        rows, refused, public = self._opened(server_round, replies, set(nodes))
        if not rows:
            reasons = "; ".join(f"{count:,} x {reason}" for reason, count in sorted(refused.items()))
            raise EmptyError(f"round {server_round} brought no report that could be used ({reasons or 'no replies'})")
        reports = Reports.wrap(np.concatenate(rows), self.envelope.mechanism.fingerprint, self.simulated)
        estimate = self.envelope.estimate(self.envelope.tally(reports))
        self.estimates.append(estimate)
        self._refused.append(refused)
        shape = _Shape.of(arrays)
        moved = shape.vector(arrays) + self.rate * np.asarray(estimate.value, dtype=np.float64)
        told = {"reports": len(rows), "refused": sum(refused.values())}
        return shape.record(moved), MetricRecord({**told, **_averaged(public)})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """None: what a device measures on its data is not randomized. Evaluate on the server (`evaluate_fn`)."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Nothing was asked."""
        return None

    # Replies -------------------------------------------------------------------------------------------------------

    def _chosen(self, grid: Grid) -> list[int]:
        """Devices to ask, drawn at random."""
        until = time.monotonic() + self.patience
        while len(nodes := sorted(grid.get_node_ids())) < self.least:
            if time.monotonic() >= until:
                raise EmptyError(
                    f"there are {len(nodes)} devices, and {self.least} are needed: wait longer, or ask fewer"
                )
            _LOG.log(INFO, "waiting for devices: %d of %d", len(nodes), self.least)
            time.sleep(min(_WAIT, max(0.0, until - time.monotonic())))
        count = min(len(nodes), max(self.least, round(self.fraction * len(nodes))))
        order = np.argsort(Stream.secure().words(lane=0, rows=slice(0, len(nodes)))[:, 0], kind="stable")
        return [nodes[place] for place in order[:count]]

    def _opened(
        self, server_round: int, replies: Iterable[Message], waited_for: set[int]
    ) -> tuple[list[NDArray], Counter[str], list[dict[str, Any]]]:
        """The reports among the replies, and why others were refused."""
        rows: list[NDArray] = []
        refused: Counter[str] = Counter()
        public: list[dict[str, Any]] = []
        for reply in replies:
            node = reply.metadata.src_node_id
            if node not in waited_for:
                refused["from a device that was not asked, or twice from one"] += 1
                continue
            waited_for.discard(node)
            found = self._checked(reply, server_round)
            if isinstance(found, str):
                refused[found] += 1
                continue
            rows.append(found)
            public.append(dict(reply.content.metric_records.get("public", {})))
        for reason, count in refused.items():
            _LOG.log(WARNING, "round %d: %d replies refused: %s", server_round, count, reason)
        return rows, refused, public

    def _checked(self, reply: Message, server_round: int) -> NDArray | str:
        """One report, or why it is none. What the reply holds is never quoted, nor is the text of an error."""
        if reply.has_error() or not reply.has_content():
            return "an error instead of a report"
        sealed = reply.content.config_records.get(KEY)
        if sealed is None or sealed.get("format") != FORMAT:
            return "no report of this format (does the client have the mod?)"
        if sealed.get(PLAN) != self.plan:
            return "made for another envelope"
        if sealed.get(ROUND) != server_round:
            return "made for another round"
        if sealed.get("simulated") is not False and not self.simulated:
            return "simulated from a seed, which protects nobody (simulated=True takes them)"
        mechanism, data = self.envelope.mechanism, sealed.get("report")
        if not isinstance(data, bytes) or len(data) != mechanism.dtype.itemsize:
            return "of the wrong size"
        row = np.frombuffer(bytearray(data), dtype=mechanism.dtype)
        try:
            fine = bool(mechanism.valid(row).all())
        except ReportError:
            fine = False
        return row if fine else "with a field out of range"


def _averaged(public: list[dict[str, Any]]) -> dict[str, float]:
    """The mean of each public metric over the devices that sent it; all weigh the same."""
    found: dict[str, list[float]] = {}
    for metrics in public:
        for name, number in metrics.items():
            if isinstance(number, int | float):
                found.setdefault(name, []).append(float(number))
    return {name: float(np.mean(numbers)) for name, numbers in found.items()}


# Without a network ---------------------------------------------------------------------------------------------------


class LocalGrid(Grid):
    """Devices in this process: a client app, and a context for each of them. For trying things out, and for tests.

    Messages go through Flower's own serialization, both ways, one device after the other. `configs` holds what each
    device knows about itself (its `context.node_config`), or say how many there are.
    """

    def __init__(self, app: "ClientApp", configs: int | Sequence[dict[str, Any]], run_id: int = 1) -> None:
        serde = require("flwr.common.serde", "federated")
        self._wired = lambda message: serde.message_from_proto(serde.message_to_proto(message))
        self.app, self.run_id = app, run_id
        told = [{} for _ in range(configs)] if isinstance(configs, int) else list(configs)
        self.contexts = {
            place + 1: Context(run_id, place + 1, dict(config), RecordDict(), {}) for place, config in enumerate(told)
        }
        with suppress(MissingExtraError):  # only recent versions ask who is speaking
            identity = require("flwr.supercore.task_identity", "federated").TaskIdentity
            identity.task_id, identity.run_id, identity.node_id = 1, run_id, 0

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """All replies; an exception becomes an error, as on a real device."""
        return [self._answered(message) for message in messages]

    def _answered(self, message: Message) -> Message:
        try:
            return self._wired(self.app(self._wired(message), self.contexts[message.metadata.dst_node_id]))
        except Exception as error:
            return Message(Error(code=0, reason=str(error)), reply_to=message)

    def get_node_ids(self) -> list[int]:
        """The devices."""
        return list(self.contexts)

    def set_run(self, run: Any) -> None:
        """There is one run only."""

    @property
    def run(self) -> Any:
        """Not known here."""
        raise ParameterError("a grid in this process has no run; it sends and receives")

    def create_message(self, *_: Any, **__: Any) -> Message:
        """Flower's old way."""
        raise ParameterError("make messages with flwr.app.Message")

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Not in two steps."""
        raise ParameterError("a grid in this process answers at once: use send_and_receive")

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Not in two steps."""
        raise ParameterError("a grid in this process answers at once: use send_and_receive")
