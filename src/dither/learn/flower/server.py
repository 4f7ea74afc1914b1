"""The server: a strategy that debiases reports, and counts what it asks for.

It checks each report, tallies them, estimates the mean of the clipped updates, and moves the model by it:
arrays + rate * mean. Every device has the same weight, since how many examples it has is its own affair.

**The budget** is a public schedule: so many rounds, each with one report of the reporter's guarantee, and all together
what `compose` says. The server refuses to ask once more (`BudgetError`); a device refuses to answer, too.

**What goes wrong.** Replies that no honest device can have sent are refused and counted by their reason, never quoted.
A device that lies within the format cannot be told from an honest one: it moves the mean like any other report. Metrics
are not randomized, nor bounded: one device can move their mean anywhere. Only names that the strategy declares `public`
are looked at, only finite numbers count, and the server's own counts are its own.
"""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from logging import INFO, WARNING, getLogger
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_real
from dither.core.estimate import Estimate
from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.core.randomness import Stream
from dither.core.reports import Reports
from dither.display.table import TextTable
from dither.errors import BudgetError, EmptyError, ParameterError, ReportError
from dither.learn.flower.messages import (
    COUNTS,
    PUBLIC,
    TRAIN,
    ArrayShapes,
    averaged_metrics,
    checked_names,
    fingerprint,
    read_report,
    write_request,
)
from dither.learn.vector_reporter import VectorReporter
from dither.privacy.accounting.composition import compose

_WAIT = 1.0  # seconds between two looks for devices
_LOG = getLogger("flwr")  # where Flower tells what it does


class Debiasing(Strategy):
    """A strategy for a Flower `ServerApp`: it estimates the mean update from randomized reports, and applies it.

    `rounds` is the public schedule, and `guarantee` what it costs each device at most. `rate` is the server's learning
    rate. Each round asks a `fraction` of the devices, drawn at random, and waits for at least `least` to be there, for
    `patience` seconds. `public` names the metrics that devices declare public; their means are shown beside the counts.
    `simulated=True` also takes reports that were made from a seed.

        Debiasing(reporter, rounds=10).start(grid, initial_arrays=ArrayRecord(model.state_dict()), num_rounds=10)

    >>> print(Debiasing(VectorReporter("Hypercube", d=4, epsilon=0.5), rounds=4).guarantee)
    epsilon 2 (exact)
    """

    def __init__(
        self,
        reporter: VectorReporter,
        *,
        rounds: int,
        rate: float = 1.0,
        fraction: float = 1.0,
        least: int = 2,
        patience: float = 600.0,
        delta: float = 0.0,
        public: Sequence[str] = (),
        simulated: bool = False,
    ) -> None:
        self.plan = fingerprint(reporter)
        self.reporter, self.simulated = reporter, bool(simulated)
        self.rounds = checked_count("rounds", rounds, 1, 1 << 20)
        self.least = checked_count("least", least, 1)
        self.rate, self.fraction = checked_real("rate", rate), checked_real("fraction", fraction)
        self.patience, self.delta = checked_real("patience", patience), delta
        self.public = checked_names(public)
        if not self.rate > 0 or not 0 < self.fraction <= 1:
            raise ParameterError("rate must be above 0, and fraction above 0 and at most 1")
        self.estimates: list[Estimate] = []
        self._refused: list[Counter[str]] = []
        self._asked: dict[int, tuple[ArrayRecord, frozenset[int]]] = {}

    def __repr__(self) -> str:
        return f"Debiasing({self.reporter!r}, rounds={self.rounds})"

    # The budget --------------------------------------------------------------------------------------------------

    @property
    def guarantee(self) -> Guarantee:
        """What a device is promised that answers every round of the schedule."""
        return NO_GUARANTEE if self.simulated else compose([(self.reporter.mechanism, self.rounds)], delta=self.delta)

    @property
    def spent(self) -> Guarantee:
        """What the rounds that were asked for have cost a device that answered all of them."""
        if self.simulated or not self._asked:
            return NO_GUARANTEE if self.simulated else Guarantee(0.0)
        return compose([(self.reporter.mechanism, len(self._asked))], delta=self.delta)

    def table(self) -> TextTable:
        """One row a round: how many reports there were, how many were refused, and how exact the mean is."""
        return TextTable(
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
                f"Each report: {NO_GUARANTEE if self.simulated else self.reporter.guarantee}.",
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
        size = ArrayShapes.of(arrays).size
        if size != self.reporter.d:
            raise ParameterError(f"the model has {size:,} parameters, and the reporter is for {self.reporter.d:,}")
        chosen = self._chosen(grid)
        self._asked[server_round] = (arrays, frozenset(chosen))
        content = write_request(arrays, config, self.plan, server_round)
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
        reports = Reports.wrap(np.concatenate(rows), self.reporter.mechanism.fingerprint, self.simulated)
        estimate = self.reporter.estimate(self.reporter.tally(reports))
        self.estimates.append(estimate)
        self._refused.append(refused)
        shape = ArrayShapes.of(arrays)
        moved = shape.vector(arrays) + self.rate * np.asarray(estimate.value, dtype=np.float64)
        counts = dict(zip(COUNTS, (len(rows), sum(refused.values())), strict=True))
        return shape.record(moved), MetricRecord({**averaged_metrics(self.public, public), **counts})

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
        order = Stream.secure().order(len(nodes))
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
            try:
                rows.append(read_report(reply, self.reporter.mechanism, self.plan, server_round, self.simulated))
            except ReportError as error:
                refused[str(error)] += 1
                continue
            public.append(dict(reply.content.metric_records.get(PUBLIC, {})))
        for reason, count in refused.items():
            _LOG.log(WARNING, "round %d: %d replies refused: %s", server_round, count, reason)
        return rows, refused, public
