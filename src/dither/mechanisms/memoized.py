"""Memory on the device: a permanent response that is drawn once and kept, and a second draw at every round.

`mechanisms.longitudinal` tells the idea and has the protocols. Here is what they share. A permanent response is a
report of a plain mechanism, `kept`; what is sent has the law of another plain one, `sent`, made of the composed
integers. Both certify themselves. A protocol says which plain mechanism it is, and, where its outputs are not
numbered, how the second draw goes.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from dither.core.channel import Channel, TwoLevel
from dither.core.checks import SMALLEST_EPSILON, checked_count, checked_real
from dither.core.contributions import Contributions
from dither.core.draw import Rows, Tape, positions
from dither.core.estimate import Estimate
from dither.core.exact import exp_below, log_above
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Collection, MarginalReading, Mechanism, Reading
from dither.core.parallel import each_chunk
from dither.core.randomness import Stream
from dither.core.reports import Reports, maker_of
from dither.core.tally import Tally
from dither.core.workload import Workload
from dither.core.worth import Worths
from dither.errors import ParameterError, ReportError
from dither.mechanisms.frequency import Frequencies

S = TypeVar("S")
Plain = TypeVar("Plain", bound=Mechanism[Estimate])

INSTANTANEOUS = "instantaneous"  # the words of the second draw, apart from all words of the first
_CHUNK_BYTES = 1 << 20
_CERTAIN = 1000.0  # the epsilon of a second draw that had better change nothing


@dataclass(frozen=True)
class Memoized(Mechanism[Estimate], Generic[Plain]):
    """What is kept, what is sent, and the verbs of a device; here with the second draw over numbered outputs."""

    k: int
    epsilon: float
    first: float
    weights: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)

    family = "longitudinal"
    planned = False  # where a plan asks once
    remembers = True
    weight_count = 4
    short: ClassVar[tuple[int, ...]] = (3, 1, 4, 1)  # integers for tests with short words

    def _validate(self) -> None:
        self._freeze(first=_checked_first(self.first, self.epsilon))

    @abstractmethod
    def _plain(self, epsilon: float, weights: tuple[int, ...] | None) -> Plain:
        """The mechanism without memory, with this budget or these integers."""

    def _fit(self) -> tuple[int, ...]:
        kept = self._plain(self.epsilon, None)
        return *(kept.weights or ()), *self._second(kept)

    @classmethod
    def candidates(cls, workload: Workload) -> Iterator[Mapping[str, Any]]:
        """Where a device is asked again and again, and a single report may spend less than all of them."""
        fits = workload.domain.kind == cls.takes and set(workload.statistics) <= set(cls.statistics)
        if fits and workload.first is not None and workload.first < workload.epsilon:
            yield {**workload.domain.parameters, "first": workload.first}

    @property
    def report_epsilon(self) -> float:
        return self.first

    @property
    def report_guarantee(self) -> Guarantee:
        return self.first_report

    def shortened(self, limit: int, rejecting: bool = True) -> Self:
        """With the same few integers for every limit, and the budgets that they keep."""
        loose = replace(self, epsilon=16.0, first=15.0, weights=self.short)
        return replace(loose, epsilon=loose.guarantee.epsilon, first=loose.first_report.epsilon)

    # The two plain mechanisms ----------------------------------------------------------------------------------

    @cached_property
    def kept(self) -> Plain:
        """The plain mechanism of which a permanent response is a report."""
        return self._plain(self.epsilon, self._integers[:-2])

    @cached_property
    def sent(self) -> Plain:
        """The plain mechanism that has the same law of one report, of the same integers."""
        return self._plain(self.first, self._composed())

    @property
    def _integers(self) -> tuple[int, ...]:
        assert self.weights is not None
        return self.weights

    @property
    def first_report(self) -> Guarantee:
        """What a single report promises."""
        return self.sent.guarantee

    def lifetime_channel(self) -> Channel:
        """The channel of the permanent response, which bounds all that reports can ever tell."""
        return self.kept.channel()

    def channel(self) -> Channel:
        return self.sent.channel()

    # The second draw, over numbered outputs --------------------------------------------------------------------

    def _second(self, kept: Plain) -> tuple[int, int]:
        """The last two integers: those of the second draw."""
        law = _two_level(kept)
        a, ratio, outputs = law.ratio(), exp_below(self.first), law.outputs
        if a > ratio:
            wanted = (ratio * (a + outputs - 2) - (outputs - 1)) / (a - ratio)
            epsilon = -log_above(1 / wanted)
        else:  # the two budgets are so near each other that integers for the first cannot reach the second
            epsilon = _CERTAIN
        again = TwoLevel.fit(epsilon, favoured=1, outputs=outputs)
        return again.high, again.low

    @cached_property
    def _again(self) -> TwoLevel:
        return replace(_two_level(self.kept), high=self._integers[-2], low=self._integers[-1])

    def _composed(self) -> tuple[int, ...]:
        """The integers of one report."""
        one, two = _two_level(self.kept), self._again
        others = one.outputs - 1
        high = one.high * two.high + others * one.low * two.low
        low = one.high * two.low + one.low * two.high + (others - 1) * one.low * two.low
        return high, low

    def _say(self, reports: NDArray, kept: NDArray, tape: Tape, rows: Rows) -> None:
        """Write one instantaneous response for each permanent one, with words of a tape of its own."""
        reports[...] = kept
        outputs = np.uint64(self._again.outputs)
        y = kept["value"].astype(np.uint64) + positions(self._again, tape, rows)
        reports["value"] = np.where(y >= outputs, y - outputs, y)

    # What the plain mechanism knows ----------------------------------------------------------------------------

    @cached_property
    def reading(self) -> Reading[Estimate]:
        return self.sent.reading

    def report_worth(self) -> Worths | None:
        """That of the plain mechanism: a liar keeps nothing, and may send the same lie at every round."""
        return self.sent.report_worth()

    @property
    def evaluations(self) -> int:
        return self.sent.evaluations

    def along(self, shape: tuple[int, ...], axes: tuple[int, ...]) -> MarginalReading[Estimate] | None:
        return self.sent.along(shape, axes)

    @cached_property
    def dtype(self) -> np.dtype:
        return self.sent.dtype

    def outputs(self) -> NDArray:
        return self.sent.outputs()

    def _valid(self, reports: NDArray) -> NDArray[np.bool_]:
        return self.sent._valid(reports)

    def _count(self, reports: NDArray) -> NDArray[np.int64]:
        return self.sent._count(reports)

    @cached_property
    def contributions(self) -> Contributions:
        return self.sent.contributions

    @property
    def row_words(self) -> int:
        return self.kept.row_words + 1

    # The verbs -------------------------------------------------------------------------------------------------

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        kept = np.empty(len(values), dtype=self.dtype)
        self.kept._fill(kept, values, tape, rows)
        self._say(reports, kept, tape.slots(INSTANTANEOUS, 1), rows)

    def permanent(self, values: Any, *, seed: int | None = None, invalid: Any = "error") -> Reports:
        """The permanent response to each value: drawn once, kept on the device, never drawn again.

        They are reports of `kept`, so `tally` does not mistake them for those of a round.
        """
        checked = self.reading.domain.check(values, invalid)
        tape = Stream.secure() if seed is None else Stream.seeded(seed, self.fingerprint)
        return Reports.wrap(self.kept.drawn(checked, tape), self.kept.fingerprint, tape.simulated)

    def instantaneous(self, permanent: Reports, *, seed: int | None = None) -> Reports:
        """The reports of one round. In a simulation every round takes another seed."""
        if maker_of(permanent) != self.kept.fingerprint:
            raise ReportError("these are no permanent responses of this mechanism: keep what permanent(values) gave")
        kept = self.kept._rows(permanent)
        if not self.kept._valid(kept).all():
            raise ReportError("a permanent response has a field out of range: what was stored is damaged")
        tape = Stream.secure() if seed is None else Stream.seeded(seed, self.fingerprint)
        reports = self.said(kept, tape.slots(INSTANTANEOUS, 1))
        return Reports.wrap(reports, self.fingerprint, permanent.simulated or tape.simulated)

    def response(self, values: NDArray, tape: Tape, rows: NDArray[np.intp] | None = None) -> NDArray:
        return self.kept.drawn(values, tape, rows)

    def said(self, kept: NDArray, tape: Tape, rows: NDArray[np.intp] | None = None) -> NDArray:
        """Instantaneous responses with the words of any tape: `instantaneous` runs it, tests enumerate it."""
        reports = np.empty(len(kept), dtype=self.dtype)

        def say(part: slice) -> None:
            self._say(reports[part], kept[part], tape, part if rows is None else rows[part])

        each_chunk(say, len(kept), max(256, _CHUNK_BYTES // (8 * self.row_words)))
        return reports

    @overload
    def estimate(
        self, tally: Tally, reading: None = None, *, within: Collection | None = None, rounds: int = 1
    ) -> Estimate: ...
    @overload
    def estimate(
        self, tally: Tally, reading: Reading[S], *, within: Collection | None = None, rounds: int = 1
    ) -> S: ...
    def estimate(
        self, tally: Tally, reading: Reading[Any] | None = None, *, within: Collection | None = None, rounds: int = 1
    ) -> Any:  # what the reading makes, as the overloads say
        """Frequencies with standard errors, from the tally of one round or the added tallies of several.

        `rounds` says in how many rounds every user has reported: with more rounds than one, reports of one user
        share their permanent noise, and the error does not fall below that of the permanent responses.
        """
        made = super().estimate(tally, reading, within=within)
        if checked_count("rounds", rounds, 1) == 1:
            return made
        if reading is not None or tally.n % rounds:
            raise ParameterError("rounds are for tallies to which every user has given one report a round")
        stderr = np.sqrt(self.variance(made.value, rounds) * rounds / tally.n)
        note = f"{rounds} rounds of {tally.n // rounds:,} users: their permanent noise is the same in every round."
        # The permanent noise and that of the rounds have correlations of their own, and these are of one report.
        return replace(made, stderr=stderr, notes=(*made.notes, note), correlation=None, variance=None)

    def variance(self, frequency: Any, rounds: int = 1) -> NDArray[np.float64]:
        """The variance that one user contributes after so many rounds, if this share of the users holds a category.

        >>> from dither.mechanisms.longitudinal import LGRR
        >>> mechanism = LGRR(k=4, epsilon=2.0, first=1.0)
        >>> [round(float(mechanism.variance(0.0, rounds)), 3) for rounds in (1, 2, 10, 1000)]
        [1.598, 0.914, 0.367, 0.231]
        """
        sent, kept = (cast(Frequencies, plain.reading) for plain in (self.sent, self.kept))
        lasting = kept.variance(frequency)
        return lasting + (sent.variance(frequency) - lasting) / checked_count("rounds", rounds, 1)


def _two_level(plain: Mechanism) -> TwoLevel:
    """The law of a mechanism that reports one of several numbered outputs."""
    law = plain.law and plain.law.two_level
    assert law is not None, "what is remembered has a two-level law"
    return law


def _checked_first(first: float, epsilon: float) -> float:
    """The budget of a single report, as a float."""
    if first is None:
        raise ParameterError("first is missing: the epsilon of a single report, for example half of epsilon")
    number = checked_real("first", first)
    if not SMALLEST_EPSILON <= number < epsilon:
        raise ParameterError(
            "first must be above 0 and below epsilon: it is what a single report may tell, and epsilon what all may "
            "tell together"
        )
    return number
