"""Mechanisms: frozen values that define one local protocol completely.

Client and server side stand in one class, because both must use the same probabilities, and these come from the
same integers. A concrete mechanism is a frozen dataclass with the parameters of the field, one more field `weights`
for its integers, and a few short methods; the verbs that users call are here and the same for all.

What it can do is declared on the class, as scikit-learn's tags are, and read by the planner, the audit, the learners
and the contract suite (`dither.testing`): the kind of domain that it `takes`, the `statistics` that it answers, what a
report costs the server (`evaluations`), which of it are worth pricing for a `Workload` (`candidates`), and what else
somebody has to know. The defaults are those of a plain mechanism for categories, which declares nothing of it.

`weights=None` chooses the integers when the mechanism is made. A stored plan passes the integers that it was
certified with, and they are certified again: a mechanism whose integers do not keep the declared guarantee does
not come into being.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import Field, dataclass, fields
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from dither.core.channel import Channel
from dither.core.checks import checked_count, checked_delta, checked_epsilon, checked_list
from dither.core.contributions import Contributions, one_of
from dither.core.decoding import MOST_WHOLE, decoded_parameters, integers, plain, portable
from dither.core.domains import CATEGORIES, SPARSE
from dither.core.draw import Rows, Tape
from dither.core.exact import exp_below
from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.core.parallel import each_chunk, sum_chunks
from dither.core.randomness import Stream
from dither.core.reports import Reports, drops
from dither.core.structure import PLAIN
from dither.core.tally import Tally
from dither.core.workload import Workload
from dither.core.worth import Worths
from dither.errors import EmptyError, InvalidReportError, ParameterError, ReportError, TallyError

if TYPE_CHECKING:
    from dither.core.cumulative_estimate import Cumulative, Thresholds
    from dither.core.honest_sums import Sums

R = TypeVar("R")
S = TypeVar("S")
Read = TypeVar("Read", covariant=True)

_CHUNK_BYTES = 1 << 20
_KEPT_BYTES = 1 << 24
_NEARLY = 1 + Fraction(1, 10**40)  # certificates are rounded up, by less than that
# Of a field that came after mechanisms had been stored: metadata by which it is stored only where it was given.
IF_GIVEN: Mapping[str, bool] = MappingProxyType({"stored if given": True})
_FEW = 64  # reports: so many are one chunk, and need no memory to speak of
MOST_COUNTED = 1 << 30  # counts of eight bytes


@dataclass(frozen=True)
class Moments:
    """Of one calibrated report, for each input: bias, variance, third absolute central moment."""

    bias: NDArray[np.float64]
    variance: NDArray[np.float64]
    third: NDArray[np.float64]


class Domain(Protocol):
    """What a value may be."""

    kind: ClassVar[str]  # of values, as `core.domains` names them

    @property
    def parameters(self) -> dict[str, Any]:
        """By which a mechanism for this domain is made, beside its budget."""
        ...

    @property
    def coordinates(self) -> int | None:
        """How many coordinates a value has that is a vector of numbers; None if it is no such thing."""
        ...

    def check(self, values: Any, invalid: Any = "error") -> NDArray:
        """The values as an array inside the domain, or an error that does not quote them."""
        ...

    def points(self, count: int) -> NDArray:
        """`count` values that stand for all."""
        ...

    def spread(self) -> NDArray:
        """Values among which is one that any mechanism finds hardest: ends, centres, and what lies between."""
        ...


class Reading(Protocol[Read]):
    """What is asked of a value, apart from how its report is randomized: shared by a family of mechanisms."""

    @property
    def domain(self) -> Domain:
        """What a value may be."""
        ...

    def worst_variance(self, share: float = 1.0) -> float:
        """The largest variance of one report, averaged over items, where a random share of the users is asked."""
        ...

    def estimate(self, tally: Tally, guarantee: Guarantee, source: str, among: int | None = None) -> Read:
        """Values and standard errors from a tally that is not empty.

        `among` users might have been asked, without looking at their values, and those who were stand for them.
        """
        ...

    def moments(self, x: Any) -> Moments:
        """Bias, variance and third absolute central moment of one calibrated report, given the input."""
        ...


class PredictedReading(Reading[Read], Protocol[Read]):
    """A reading that is no average of reports, so that what it costs follows from no variance of one."""

    def predicted_mse(self, reports: float, users: float) -> float:
        """The mean over its numbers of the squared error, where `reports` of all `users` report."""
        ...


class ScoredReading(Reading[Read], Protocol[Read]):
    """A reading that says itself what a report is worth."""

    def worths(self) -> Worths | None:
        """What a valid report is worth to each number that is read (`core.worth`)."""
        ...


class MarginalReading(Reading[Read], Protocol[Read]):
    """A reading of some axes of a table whose cells are categories."""

    def worths(self) -> Worths:
        """What a valid report is worth to each share along these axes (`core.worth`)."""
        ...


class Collection(NamedTuple):
    """What reports were a part of: what all together promise, how it is called, how many might have been asked.

    Of no reports it can be read, too, if the reading has an answer to that.
    """

    guarantee: Guarantee
    source: str
    among: int


class Layout(Protocol):
    """What a report looks like that is more than one number."""

    @property
    def dtype(self) -> np.dtype:
        """The fields of a report."""
        ...

    def outputs(self) -> NDArray:
        """Every possible report, in the order of the channel's columns (small alphabets only)."""
        ...

    def valid(self, reports: NDArray) -> NDArray[np.bool_]:
        """Which reports have all their fields in range."""
        ...

    def count(self, reports: NDArray) -> NDArray[np.int64]:
        """The counts of these reports."""
        ...

    @property
    def contributions(self) -> Contributions:
        """What one report can add to the counts."""
        ...


class Mechanism(ABC, Generic[R]):
    """One local protocol: what a client sends, a server adds up, an analyst reads off, and what it guarantees.

    R is what it estimates: `Mechanism[Estimate]` for frequencies or a mean.
    """

    family: ClassVar[str] = ""
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ()  # small ones, for tests and tables
    weight_count: ClassVar[int] = 2

    takes: ClassVar[str] = CATEGORIES  # the kind of its domain
    statistics: ClassVar[tuple[str, ...]] = ("frequency",)  # what can be asked of its estimate; "total": sums of these
    planned: ClassVar[bool] = True  # whether the planner looks at it
    needs_delta: ClassVar[bool] = False  # whether it promises nothing at delta = 0
    for_vectors: ClassVar[bool] = False  # whether learners try it for gradients and updates
    vector_options: ClassVar[Mapping[str, Any]] = {}  # what they make it with, where it is not the default
    structure: ClassVar[str] = PLAIN  # of a report, as `core.structure` names them
    shows_favoured: ClassVar[bool] = False  # whether its `favours` tells of each report if an input favours it
    composition: ClassVar[str] = "pure"  # how rounds add up: "pure", "delta", or as "gaussian" noise
    phased: ClassVar[bool] = False  # whether it learns from an earlier phase: `after`, and readings with `earlier`

    epsilon: float
    delta: float = 0.0
    remembers: bool = False  # whether a device keeps a response, and `guarantee` is for all its reports
    weights: tuple[Any, ...] | None

    if TYPE_CHECKING:  # a mechanism of the registry is made like any other, of parameters that only its class knows

        def __init__(self, *parameters: Any, **named: Any) -> None: ...

    # What a concrete mechanism supplies ------------------------------------------------------------------------

    @abstractmethod
    def _validate(self) -> None:
        """Check and normalise the parameters, with `_freeze`."""

    @cached_property
    def law(self) -> Channel | None:
        """The `TwoLevel` law of a mechanism that has one: of its integers or, where there are none yet, of the best."""
        return None

    def _fit(self) -> tuple[Any, ...]:
        """Choose the integers: by default those of the two-level law."""
        law = None if self.law is None else self.law.two_level
        if law is None:
            raise TypeError(f"{type(self).__name__} lacks law, or _fit")  # as an abstract method that is not there
        return law.high, law.low

    @cached_property
    @abstractmethod
    def reading(self) -> Reading[R]:
        """What a value may be, and how a tally of reports becomes an estimate."""

    @abstractmethod
    def channel(self) -> Channel:
        """The exact conditional probabilities of a report."""

    @abstractmethod
    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        """Write one report for each value. `rows` are the rows' numbers on the tape."""

    # What the planner asks --------------------------------------------------------------------------------------

    @property
    def evaluations(self) -> int:
        """What a report costs the server: hash evaluations, or items that are looked at.

        0 where a report is counted at once, however large the domain. What it takes to read the counts, once for all
        reports, is no part of it.
        """
        return 0

    @classmethod
    def candidates(cls, workload: Workload) -> Iterator[Mapping[str, Any]]:
        """The mechanisms of this class that are worth pricing: each by its parameters, without the budget.

        By default one, made by the parameters of the domain, if the class takes such a domain and answers what is
        asked. The planner leaves out what the budget is too small for, or the server, or a report.
        """
        if cls.planned and workload.domain.kind == cls.takes and set(workload.statistics) <= set(cls.statistics):
            yield workload.domain.parameters

    @classmethod
    def with_budget(cls, parameters: Mapping[str, Any], epsilon: float, delta: float, weights: Any = None) -> Self:
        """The mechanism with these parameters and this budget; without the delta, where the class knows none."""
        budget: dict[str, Any] = {"epsilon": epsilon, "weights": weights}
        if cls.knows_delta():
            budget["delta"] = delta
        return cls(**parameters, **budget)

    @classmethod
    def knows_delta(cls) -> bool:
        """Whether a delta can be given."""
        return any(field.name == "delta" for field in fields(cls))  # type: ignore[arg-type]

    def affordable(self, variance: float, reports: float, most_evaluations: int) -> Self:
        """The same protocol, made cheaper for the server, since a report costs more than that: by default itself.

        `variance` is that of one report, and `reports` how many are expected: what is saved may add a little noise.
        """
        return self

    def after(self, tally: Tally, users: int) -> "Mechanism[Any]":
        """The mechanism for so many users of the next phase, by what the tally of this one tells: by default itself.

        The tally is made of reports, so whatever is made of it costs nobody anything. One that is `phased` has readings
        with a field `earlier`, for the mechanisms and tallies of the phases before: they are told by all reports.
        """
        return self

    def learned_cuts(self) -> tuple[float, ...] | None:
        """Of a mechanism for numbers: places from -1 to 1 that lie close where an earlier phase saw many users.

        None where nothing was learned.
        """
        return None

    def bin_reading(self, thresholds: "Thresholds") -> "PredictedReading[Any] | None":
        """How shares of users between thresholds are read off a tally of numbers: of one that answers `"bins"`."""
        return None

    @property
    def priced_reading(self) -> Reading[R]:
        """The reading whose variance the planner takes, beside the `displacement`: by default the one that there is."""
        return self.reading

    def displacement(self) -> float:
        """The variance by which public choices that all users share move an estimate: no number of reports lowers it.

        At most; 0 where nothing is shared.
        """
        return 0.0

    # What others have to know ------------------------------------------------------------------------------------

    def report_worth(self) -> Worths | None:
        """What a valid report is worth to each number that is estimated (`core.worth`), exactly, from the integers.

        By default each report is estimated alone, if these are few; None where that is not known. Shown by
        `utility.influence`.
        """
        from dither.core.listed_worth import listed_worth  # a device has no use for it

        return listed_worth(self)

    def honest_sums(self, tally: Tally) -> "Sums":
        """Sums over the reports of a tally that honest devices keep within bounds (`core.honest_sums`).

        Of reports that are independent: one of each user. By default none is known.
        """
        return ()

    @cached_property
    def naive(self) -> ScoredReading[R] | None:
        """The reading that takes outputs as they are, which some papers have; None if there is no such thing."""
        return None

    @cached_property
    def robust(self) -> ScoredReading[R] | None:
        """A reading of the same tally under which a forged report is worth less; None if there is no such thing."""
        return None

    def read_by(self, estimator: str) -> Reading[R] | None:
        """The reading of this name: `"calibrated"`, `"naive"` or `"robust"`; None if there is no such thing."""
        return self.reading if estimator == "calibrated" else self._other_reading(estimator)

    def report_worth_by(self, estimator: str) -> Worths | None:
        """What a valid report is worth to the numbers that the reading of this name estimates."""
        if estimator == "calibrated":
            return self.report_worth()
        other = self._other_reading(estimator)
        return None if other is None else other.worths()

    def _other_reading(self, estimator: str) -> ScoredReading[R] | None:
        return self.naive if estimator == "naive" else self.robust if estimator == "robust" else None

    def cumulative_reading(self, thresholds: "Thresholds") -> "PredictedReading[Cumulative] | None":
        """How shares of users below thresholds are read off the same tally: of one that answers `"distribution"`.

        None where a report cannot tell them, or where it is not known how well it does.
        """
        return None

    def attribute_readings(self, tally: Tally, among: int | None = None) -> Mapping[int, tuple[Any, ...]]:
        """Of reports about one of several attributes: what they tell about the shares of the values of each.

        Linear readings (`estimation.linear_readings`) by the places of the attributes, for so many users of whom those
        who reported were drawn; none where that is not known.
        """
        return {}

    def along(self, shape: tuple[int, ...], axes: tuple[int, ...]) -> MarginalReading[R] | None:
        """Where categories are the cells of a table of this shape: the reading of the shares along some of its axes.

        With its exact variance, for every population; None if that is not known. The planner then crosses no
        attributes in its reports.
        """
        return None

    @property
    def components(self) -> "tuple[Mechanism[Any], ...]":
        """The mechanisms whose reports a report is made of, each kind once; none if it stands for itself."""
        return ()

    @property
    def dimensions(self) -> "tuple[tuple[Reading[Any], float], ...]":
        """Of a record whose dimensions are reported on their own: how each is read, and the share of users it has."""
        return ()

    def dimensions_by(self, estimator: str) -> "tuple[tuple[Reading[Any], float], ...]":
        """The same under the reading of this name (`read_by`)."""
        return self.dimensions

    def shortened(self, limit: int, rejecting: bool = True) -> Self | None:
        """The same mechanism with integers whose total is at most `limit`, for tests that run all tapes of short words.

        With `rejecting` some words are rejected: the limit is no multiple of the total. None if there are no such
        integers. The budget may be another one, if the integers keep it. By default, for a two-level law.
        """
        from dither.core.short_weights import short_two_level  # a device has no use for it

        return short_two_level(self, limit, rejecting)

    @property
    def sampler(self) -> Hashable:
        """What a report is drawn by: equal for mechanisms that draw alike, though they may be for other domains."""
        return self.fingerprint

    @property
    def report_guarantee(self) -> Guarantee:
        """What a single report promises."""
        return self.guarantee

    @property
    def report_epsilon(self) -> float:
        """The epsilon of a single report: smaller than `epsilon` where that is for all reports of a device."""
        return self.epsilon

    # What it changes where a report is more than one number, an output of its channel ---------------------------

    @cached_property
    def layout(self) -> Layout | None:
        """What a report looks like; None where it is one number, an output of the channel."""
        return None

    @cached_property
    def dtype(self) -> np.dtype:
        """The fields of a report."""
        if self.layout is not None:
            return self.layout.dtype
        return np.dtype([("value", np.min_scalar_type(self.channel().shape[1] - 1))])

    def inputs(self) -> NDArray[Any]:
        """The values that the channel's rows belong to."""
        return self.reading.domain.points(self.channel().shape[0])

    def outputs(self) -> NDArray[Any]:
        """Every possible report, in the order of the channel's columns (small alphabets only)."""
        if self.layout is not None:
            return self.layout.outputs()
        return np.arange(self.channel().shape[1]).astype(self.dtype)

    def _valid(self, reports: NDArray) -> NDArray[np.bool_]:
        """Which reports have all their fields in range."""
        if self.layout is not None:
            return self.layout.valid(reports)
        return reports["value"] < self.channel().shape[1]

    def _count(self, reports: NDArray) -> NDArray[np.int64]:
        """The counts of these reports; counts of several parts add up."""
        if self.layout is not None:
            return self.layout.count(reports)
        return np.bincount(reports["value"], minlength=self.channel().shape[1])

    @cached_property
    def contributions(self) -> Contributions:
        """What one report can add to the counts, against which tallies are checked.

        A report that is one number adds one to one count. Where reports are counted in another way and nothing is
        declared, nothing is known, and nothing is refused.
        """
        if type(self)._count is not Mechanism._count:
            return Contributions()
        return one_of(self.channel().shape[1]) if self.layout is None else self.layout.contributions

    @cached_property
    def tally_shape(self) -> tuple[int, ...]:
        """The shape of the counts: as declared or, where it is not, as reports are counted."""
        shape = self.contributions.shape
        return self._count(np.empty(0, dtype=self.dtype)).shape if shape is None else shape

    def check_size(self) -> None:
        """Refuse what has more counts, or more numbers to be read off them, than fit; no memory is taken for them."""
        keyed, asked = self.takes == SPARSE, self.reading.domain.parameters
        read = 2 * asked["d"] if keyed else asked.get("k", 0)  # shared hash functions have few counts of many keys
        found = ((self.contributions.size or 0, "a tally of 2^{} counts"), (read, "an estimate of 2^{} numbers"))
        for size, what in found:
            if size > MOST_COUNTED:
                fewer = f"ask for fewer {'keys' if keyed else 'categories'}"
                raise ParameterError(f"{what.format(size.bit_length() - 1)} does not fit; {fewer}")

    @property
    def row_words(self) -> int:
        """Words of randomness that a row needs: the size of a chunk follows from it."""
        return 1

    # The verbs -------------------------------------------------------------------------------------------------

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is promised, computed from the integers that are sampled: of one report, unless a device has memory."""
        return Guarantee.of(self.lifetime_channel(), self.epsilon, self.delta)

    def lifetime_channel(self) -> Channel:
        """The channel of all that the reports about one value can tell: that of the report, if it is the only one."""
        return self.channel()

    def randomize(self, values: Any, *, seed: int | None = None, invalid: Any = "error") -> Reports:
        """One report for each value.

        `seed=None` draws from the operating system's randomness. An integer makes a simulation that can be repeated
        and that protects nobody: its reports are marked, and estimates from them state no guarantee. `invalid` says
        what to do with a value outside the domain: `"error"`, or a substitute that the domain defines.
        """
        checked = self.reading.domain.check(values, invalid)
        tape = Stream.secure() if seed is None else Stream.seeded(seed, self.fingerprint)
        return Reports.wrap(self.drawn(checked, tape), self.fingerprint, tape.simulated)

    def drawn(self, values: NDArray[Any], tape: Tape, rows: NDArray[np.intp] | None = None) -> NDArray[Any]:
        """Reports for values inside the domain, with the words of any tape: `randomize` runs it, tests enumerate it.

        `rows` are their numbers on the tape, where these are not 0, 1, 2, ...
        """
        reports = np.empty(len(values), dtype=self.dtype)
        if len(values) <= _FEW:
            if len(values):
                self._fill(reports, values, tape, slice(0, len(values)) if rows is None else rows)
            return reports
        _keep_memory()

        def fill(part: slice) -> None:
            self._fill(reports[part], values[part], tape, part if rows is None else rows[part])

        each_chunk(fill, len(values), max(256, _CHUNK_BYTES // (8 * self.row_words)))
        return reports

    def response(self, values: NDArray[Any], tape: Tape, rows: NDArray[np.intp] | None = None) -> NDArray[Any]:
        """What a device that is asked again and again draws once and keeps: reports, unless it draws again from it."""
        return self.drawn(values, tape, rows)

    def said(self, kept: NDArray[Any], tape: Tape, rows: NDArray[np.intp] | None = None) -> NDArray[Any]:
        """Reports of one round from kept responses, with the words of any tape: by default these themselves."""
        return kept

    def tally(self, reports: NDArray[Any], *, invalid_reports: str = "error") -> Tally:
        """The sum over reports. Any split of the reports gives, merged with `+`, the same tally to the bit.

        A report with a field out of range is refused, or left out by `invalid_reports="drop"`: `n` counts the others.
        """
        rows, drop = self._rows(reports), drops(invalid_reports)
        marks = np.asanyarray(reports).view(Reports)  # a plain array has none
        if marks.maker and marks.maker != self.fingerprint:
            raise ReportError("these reports were made by another mechanism, or by this one with other parameters")

        dropped: list[int] = []  # of each part: appending is one step, so threads need no lock

        def count(part: slice) -> NDArray[np.int64]:
            fine = self._valid(rows[part])
            if fine.all():
                return self._count(rows[part])
            if not drop:
                row = part.start + int(fine.argmin())
                raise InvalidReportError(
                    f"report {row} has a field out of range, so no honest client sent it; nothing was tallied. "
                    'invalid_reports="drop" leaves such reports out'
                )
            dropped.append(len(fine) - int(fine.sum()))
            return self._count(rows[part][fine])

        self.check_size()
        many = min(self.contributions.size or 0, _CHUNK_BYTES)  # counts: a chunk of fewer rows would be spent on them
        counts = sum_chunks(count, len(rows), max(1024, 4 * _CHUNK_BYTES // self.dtype.itemsize, 4 * many))
        if counts is None:
            counts = self._count(rows)
        n = len(rows) - sum(dropped)
        simulated = marks.simulated and n > 0  # what is not there has no mark
        return Tally(self.fingerprint, n, counts, simulated)

    def valid(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        """Which reports an honest client can have sent: keep them with `reports[mechanism.valid(reports)]`."""
        return self._valid(self._rows(reports))

    def _rows(self, reports: Any) -> NDArray:
        try:
            rows = np.atleast_1d(np.asarray(reports))
        except Exception:  # what it says may quote a report
            rows = np.empty((0, 0))
        if rows.dtype != self.dtype or rows.ndim != 1:
            raise ReportError(f"these are not reports of {type(self).__name__}: expected rows of {self.dtype}")
        return rows

    @overload
    def estimate(self, tally: Tally, reading: None = None, *, within: "Collection | None" = None) -> R: ...
    @overload
    def estimate(self, tally: Tally, reading: Reading[S], *, within: "Collection | None" = None) -> S: ...
    def estimate(self, tally: Tally, reading: Reading[S] | None = None, *, within: "Collection | None" = None) -> R | S:
        """An `Estimate`: values with standard errors. Where there are several statistics, a mapping to one for each.

        `reading` reads the same counts in another way. A plan says `within` which collection the reports were made.
        """
        self.check_tally(tally)
        if within is not None:
            return (reading or self.reading).estimate(tally, *within)
        if tally.n == 0:
            raise EmptyError("there are no reports yet: tally at least one before estimating")
        guarantee = NO_GUARANTEE if tally.simulated else self.guarantee
        return (reading or self.reading).estimate(tally, guarantee, repr(self))

    def check_tally(self, tally: Tally) -> None:
        """Refuse a tally that is not of this mechanism, or that no reports of it can have added up to.

        >>> from dither import GRR
        >>> GRR(k=2, epsilon=1.0).check_tally(Tally(GRR(k=2, epsilon=1.0).fingerprint, 1, np.array([0, 10**6])))
        Traceback (most recent call last):
        dither.errors.TallyError: no reports add up to this tally: count 1 is 1,000,000, and 1 report adds at most 1 to
        it. Leave it out, or tally its reports again
        """
        if not isinstance(tally, Tally):
            raise TallyError("an estimate is read off a tally: mechanism.estimate(mechanism.tally(reports))")
        if tally.mechanism != self.fingerprint:
            raise TallyError("this tally belongs to another mechanism, or to this one with other parameters")
        self.contributions.check(tally.n, tally.counts)

    def moments(self, x: Any) -> Moments:
        """Bias, variance and third absolute central moment of one calibrated report, for each input in x."""
        return self.reading.moments(x)

    # Identity --------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Name, parameters and integers: all that defines the protocol, ready for JSON.

        Integers beyond 2^53 are texts, since many readers of JSON would round them; `from_dict` takes both. What came
        later (`IF_GIVEN`) is left out where it was not given, so that a hash from before stays what it was.
        """
        known = {field: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        parameters = {field.name: plain(value) for field, value in known.items() if not _unsaid(field, value)}
        return {"mechanism": type(self).__name__, **portable(parameters)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`: the stored integers are kept, and certified again."""
        parameters = integers(dict(stored), MOST_WHOLE + 1)
        if parameters.pop("mechanism", None) != cls.__name__:
            raise ParameterError(f"this description is not one of {cls.__name__}")
        if parameters.get("weights") is None:  # they would be chosen anew
            raise ParameterError(f"{cls.__name__}: missing weights, the integers that are sampled")
        parameters["weights"] = integers(parameters["weights"])
        return cls(**decoded_parameters(cls, parameters, cls.__name__))

    def __reduce__(self):
        return type(self).from_dict, (self.to_dict(),)  # a pickle holds no cache, and is certified again

    @cached_property
    def fingerprint(self) -> str:
        """A hash of `to_dict`, with all integers as numbers: equal exactly for equal protocols."""
        text = json.dumps(integers(self.to_dict(), MOST_WHOLE + 1), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def __post_init__(self) -> None:
        self._freeze(epsilon=checked_epsilon(self.epsilon))
        if self.knows_delta():
            self._freeze(delta=checked_delta(self.delta))
        self._validate()
        if self.weights is None:
            self._freeze(weights=self._fit())
            vars(self).pop("law", None)  # that of which the integers were chosen: from here on it is made of them
        else:
            self._freeze(weights=self._checked_weights(self.weights))
        if self.channel().ratio() == 1:
            raise ParameterError("these weights treat all outputs alike: no report would carry information")
        if not self._clearly_kept and (self.guarantee.epsilon > self.epsilon or self.guarantee.delta > self.delta):
            raise ParameterError("these weights do not keep the declared guarantee; leave them out to have them chosen")

    @property
    def _clearly_kept(self) -> bool:
        """Whether no ratio comes near e^epsilon: the planner makes thousands, and a logarithm takes longest of all."""
        return self.lifetime_channel().ratio() * _NEARLY <= exp_below(self.epsilon)

    def _checked_weights(self, weights: Any) -> tuple[Any, ...]:
        """Integers from outside, checked for their form; the certificate checks what they promise."""
        rule = f"weights must be {self.weight_count} whole numbers, or left out"
        return tuple(checked_count("a weight", weight, 1) for weight in checked_list(rule, weights, self.weight_count))

    def _freeze(self, **parameters: Any) -> None:
        for name, value in parameters.items():
            object.__setattr__(self, name, value)


def _unsaid(field: "Field[Any]", value: Any) -> bool:
    """Whether a parameter that came later has the value that all had before."""
    return bool(field.metadata.get("stored if given")) and value == field.default


def _keep_memory() -> None:
    """Let the C library keep the memory of one chunk for the next, instead of giving it back in between.

    glibc hands free memory above a threshold, 128 kB at first, back to the system at once, and every chunk would
    pay for fresh pages: up to three quarters of its time. Releasing one larger block raises the threshold for good.
    The block is never written to, so it takes no memory.
    """
    np.empty(_KEPT_BYTES, dtype=np.uint8)
