"""What answers queries: the marginals of all attributes, and how much each pair of them departs from independence.

Nearly all methods end in the same model. An attribute has its shares p_i at full resolution (`Margin`); a pair has, on
blocks of its table, the ratio of what is there to what independence would put there (`Pair`), so that its table is
M_ij = p_i q_j ratio_IJ without ever being built: an answer about two attributes is U ratio V' with the parts U and V of
the blocks that the query covers.

**More attributes.** Records with weights stand for everybody: those of the normal copula, raked to all marginals and
pairs (`weighted_records`). They have these tables nearly, not exactly. With p^_j and T^_jk what the records have, and
p_j and T_jk what the model has, an answer about a box of more than two attributes is

    sum of the weights inside + sum_j d_j prod_(l /= j) p_l + sum_jk (d_jk - d_j p_k - p_j d_k) prod_(l /= j, k) p_l,

where d_j = p_j - p^_j and d_jk = T_jk - T^_jk are those of the box. Every term is a product of measures, so all answers
are those of *one* measure, and answers of a partition add up exactly. Its marginals are p_j and its pairs T_jk: a term
of one attribute adds d_j to its marginal, and takes from a pair what the term of the pair adds. It is the smallest
correction that does so where attributes are independent. Where pairs contradict each other it can make an answer about
hardly anybody a little negative. In place of it, `completed("entropy")` and `completed("weighted update")` put the
pairs of each query together by itself, as 004 does; HDG, TDG and CALM do so unless told otherwise.

**Errors** are carried along by first derivatives. What the reports leave open is, for an attribute, a covariance of the
sums of its cells, and for a pair a covariance of what its grid adds to its margins (`White` or `Factors`): margins
and interaction are independent, because noise in the cells of a grid is white. The answer of a query moves with the
singles and pairs that it is made of as `pair_completion.answer_gradients` tells, and each pair with its two margins.

**What was guessed** is stated beside it as `doubt`, an estimate and no more. Inside the cells of a grid that a query
cuts the model knows margins only; and with three attributes or more, pairs leave the answer open. For the first we
take the mass of the cut cells times how far the query cuts them, and what the correlation and bends may do there
(`inside_cells`); doubts about several pairs add up, since they are likely to be wrong in the same way. For the second,
half the distance between two completions of the same pairs, the one of largest entropy and the one nearest to the
records, and a part of what three attributes or more can do together without any pair that shows it (`beyond_pairs`),
since no report is about three.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dither.estimation.normal_copula import correlation_of
from dither.ranges.pair_completion import Joint, answer_gradients, joint, margins
from dither.ranges.queries import Queries
from dither.ranges.query_model import COMPLETIONS, Answered, Model

Floats = NDArray[np.float64]

_RECORDS = 1 << 14  # with weights, that stand for everybody
_CHUNK = 1 << 24  # states of points and queries at a time
# How much of a cut cell's mass is in doubt, where a query takes half of it. Fitted to the coverage of `Copula` in
# `python benchmarks/ranges.py`. At half, once and twice of it intervals about two attributes hold 96, 96 and 97%, about
# four 89, 90 and 91% (`python benchmarks/constants.py ranges.model._GUESS`).
_GUESS = 0.15
_LITTLE = 1e-3
_CROWDED = 2.0  # cells of equal mass that would be as unlike as those of a grid
_FLOOR = 1e-3  # of an even table, so that no state is without
_SETTLED, _MOST_ROUNDS = 1e-6, 100  # of tables of more than two attributes: far below any noise
# The correlation of being inside, of two attributes that nobody was asked about together. A guess: on data with strong
# correlations intervals of `MSW` hold 65, 85 and 99% at half, once and twice of it, about four attributes 41, 70 and
# 98% (`python benchmarks/constants.py ranges.model._UNKNOWN`).
_UNKNOWN = 0.3
# Of what three attributes or more may do together, unseen in pairs (`beyond_pairs`). Calibrated on populations that no
# benchmark judges by: at half, once and twice of it intervals about four attributes hold 96, 98 and 99% there, and all
# errors are stated .93, 1 and 1.16 times as large (`python benchmarks/constants.py ranges.model._UNSEEN`).
_UNSEEN = 0.2


class Noise(Protocol):
    """What the reports leave open about a pair, its margins apart."""

    def variance(self, u: Floats, v: Floats) -> Floats:
        """Of the mass in u_I * v_J of each cell IJ, for each query."""
        ...


@dataclass(frozen=True, eq=False)
class White:
    """The same independent error in each cell of a grid, after its sums along rows and columns are taken away."""

    level: float

    def variance(self, u: Floats, v: Floats) -> Floats:
        return self.level * _centred(u) * _centred(v)


def _centred(weights: Floats) -> Floats:
    return np.maximum((weights**2).sum(axis=1) - weights.sum(axis=1) ** 2 / weights.shape[1], 0.0)


@dataclass(frozen=True, eq=False)
class Factors:
    """Errors that are sums of tables, each times an independent number of variance one."""

    tables: Floats  # (factors, rows, columns)

    def variance(self, u: Floats, v: Floats) -> Floats:
        if not len(self.tables):
            return np.zeros(len(u))
        return (((u @ self.tables) * v).sum(axis=2) ** 2).sum(axis=0)


NOTHING = Factors(np.zeros((0, 1, 1)))


@dataclass(frozen=True, eq=False)
class Margin:
    """The shares of an attribute's values, and the covariance of the errors of their sums over cells.

    A covariance with one axis holds the variances of independent errors, given that they add up to nothing.
    """

    value: Floats
    cuts: NDArray[np.int64]
    covariance: Floats

    @property
    def cells(self) -> Floats:
        """The shares of the cells."""
        return sums(self.value, self.cuts)

    def variance(self, gradients: Floats) -> Floats:
        """Of a sum of shares with these weights; inside a cell the errors are as the shares are."""
        weights = share_inside(gradients, self.value, self.cuts)
        if self.covariance.ndim == 1:
            common = (weights @ self.covariance) ** 2 / max(float(self.covariance.sum()), 1e-300)
            return np.maximum(weights**2 @ self.covariance - common, 0.0)
        return np.maximum(np.einsum("qi,ij,qj->q", weights, self.covariance, weights, optimize=True), 0.0)


@dataclass(frozen=True, eq=False)
class Pair:
    """How a pair departs from independence: `ratio` on blocks, known up to `noise` on the cells of a grid.

    `departure` says by which share of its mass a cell may differ, inside, from what margins and ratio tell. `inside` is
    what blocks may do while cells stay as they are (`inside_cells`), and `lean` where all pairs may go together
    (`interaction.Rest`), on the cells of the grid. `clusters` is how likely the pair is two clusters.
    """

    cuts: tuple[NDArray[np.int64], NDArray[np.int64]]
    ratio: Floats
    grid: tuple[NDArray[np.int64], NDArray[np.int64]]
    noise: Noise = NOTHING
    departure: float = 1.0
    inside: Noise = NOTHING
    lean: Floats | None = None
    clusters: float = 0.0


def sums(entries: Floats, cuts: NDArray[np.int64]) -> Floats:
    """Over the cells between the cuts, along the last axis."""
    return np.add.reduceat(entries, cuts[:-1], axis=-1)


def share_inside(masks: Floats, shares: Floats, cuts: NDArray[np.int64]) -> Floats:
    """Which share of each cell is inside, for each row of masks; of an empty cell, of its values."""
    mass = sums(shares, cuts)
    covered = sums(masks * shares, cuts)
    empty = mass <= 0
    if empty.any():
        covered[..., empty] = (sums(np.asarray(masks, dtype=np.float64), cuts) / np.diff(cuts))[..., empty]
    return covered / np.where(empty, 1.0, mass)


@dataclass(frozen=True, eq=False)
class Pairwise(Model):
    """Marginals and pairs. Pairs that are not listed are independent."""

    margins: tuple[Margin, ...]
    pairs: Mapping[tuple[int, int], Pair]
    completion: str = "copula"  # of what pairs leave open, one of COMPLETIONS
    given: Floats | None = None  # the correlations of the copula, if the method knows them
    resolution: float = 0.0  # standard error that no answer about two attributes or more is below
    unexplained: tuple[tuple[int, ...], ...] = ()  # attributes and pairs whose reports the fit does not explain

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each attribute has."""
        return tuple(margin.value.size for margin in self.margins)

    @cached_property
    def correlation(self) -> Floats:
        """Of the normal copula that is nearest to the pairs."""
        if self.given is not None:
            return self.given
        shares = [margin.value for margin in self.margins]
        tables = {pair: (each.cuts, each.ratio) for pair, each in self.pairs.items()}
        return correlation_of(shares, tables)

    @cached_property
    def _records(self) -> tuple[list[NDArray[np.int32]], Floats]:
        """Records with weights, a column each, that have the marginals and pairs, nearly."""
        from dither.ranges.weighted_records import weighted_records  # who asks for pairs has no use for it

        return weighted_records(self, _RECORDS)

    def table(self, one: int, other: int) -> Floats:
        """The table of a pair, at full resolution."""
        if one > other:
            return self.table(other, one).T
        outer = np.outer(self.margins[one].value, self.margins[other].value)
        pair = self.pairs.get((one, other))
        if pair is None:
            return outer
        down, across = (np.diff(cuts) for cuts in pair.cuts)
        return outer * np.repeat(np.repeat(pair.ratio, down, axis=0), across, axis=1)

    def pieces(self, attribute: int, others: Sequence[int]) -> NDArray[np.int64]:
        """By the cells of its own grid, and of those with the others. More than two are records: by values."""
        return np.arange(self.shape[attribute] + 1) if len(others) > 1 else self._cuts(attribute, others)

    def _cuts(self, attribute: int, others: Sequence[int]) -> NDArray[np.int64]:
        """Where its margin, or its pair with one of the others, is cut."""
        cuts = [self.margins[attribute].cuts]
        for pair in ((min(attribute, other), max(attribute, other)) for other in others):
            if pair in self.pairs:
                side, known = pair.index(attribute), self.pairs[pair]
                cuts += [known.cuts[side], known.grid[side]]
        return common_cuts(cuts)

    def condensed(self, continuous: Sequence[bool]) -> Self:
        """Queries that may cut values have the same answers, and cost no more than the pieces are many.

        Only where all pieces of an attribute have as many values, so that they are values of one size themselves.
        """
        whole = [np.arange(size + 1) for size in self.shape]
        kept = [self._even_pieces(j) if continuous[j] else each for j, each in enumerate(whole)]
        if all(len(some) == len(each) for some, each in zip(kept, whole, strict=True)):
            return self
        margins = tuple(
            replace(margin, value=sums(margin.value, own), cuts=np.searchsorted(own, margin.cuts))
            for margin, own in zip(self.margins, kept, strict=True)
        )
        pairs = {}
        for (j, k), pair in self.pairs.items():
            cuts, grid = (
                (np.searchsorted(kept[j], both[0]), np.searchsorted(kept[k], both[1]))
                for both in (pair.cuts, pair.grid)
            )
            pairs[j, k] = replace(pair, cuts=cuts, grid=grid)
        return replace(self, margins=margins, pairs=pairs)

    def _even_pieces(self, j: int) -> NDArray[np.int64]:
        """The pieces of an attribute that no pair and no query about whole pieces cuts; its values if they differ."""
        pieces = self._cuts(j, [other for other in range(len(self.margins)) if other != j])
        widths = np.diff(pieces)
        shares = self.margins[j].value
        even = (shares == np.repeat(shares[pieces[:-1]], widths)).all()
        return pieces if even and (widths == widths[0]).all() else np.arange(self.shape[j] + 1)

    def completed(self, by: str) -> Self:
        return replace(self, completion=by) if by in COMPLETIONS else super().completed(by)

    def records(self, n: int, seed: int | None) -> NDArray[np.int64]:
        from dither.ranges.synthetic_records import sampled_records  # who only asks has no use for it

        return sampled_records(self, n, seed)

    # What it rests on ------------------------------------------------------------------------------------------

    def basis(self) -> Mapping[tuple[int, ...], str]:
        found: dict[tuple[int, ...], str] = {}
        for (j, k), pair in self.pairs.items():
            cells = " x ".join(str(len(side) - 1) for side in pair.grid)
            beyond = f", and {pair.departure:.0%} of the users may be placed otherwise" if pair.departure < 1 else ""
            fullest = f"{cells} cells, of which the fullest holds {self._mass(j, k).max():.0%}"
            shape = "two clusters" if pair.clusters > 0.5 else f"correlation {self.correlation[j, k]:+.2f}"
            found[j, k] = f"{shape}{beyond}; {fullest}"
        return found

    def doubts(self) -> Mapping[str, Sequence[tuple[int, ...]]]:
        crowded = [pair for pair in self.pairs if 1 / float((self._mass(*pair) ** 2).sum()) < _CROWDED]
        return {
            "Most users lie in one or two cells of a grid, so that how they go together is hardly seen: collect in two "
            "phases (Copula.first and after)": crowded,
            "The fit does not explain the reports, at a false alarm of one in a million": self.unexplained,
        }

    # Answers ---------------------------------------------------------------------------------------------------

    def answers(self, queries: Queries) -> Answered:
        """The share of users inside each query."""
        none = np.zeros(len(queries))
        found = Answered(none.copy(), none.copy(), none.copy(), *_never(len(queries)))
        for count, rows in _by_count(queries):
            part = self._answers(_Chosen.of(queries, rows, count))
            for whole, own in zip(found, part, strict=True):
                whole[rows] = own
            if count > 1:
                found.doubt[rows] = np.hypot(found.doubt[rows], self.resolution)
        return found

    def _answers(self, chosen: "_Chosen") -> Answered:
        if chosen.count == 0:
            none = np.zeros(chosen.queries)
            return Answered(none + 1.0, none, none, *_never(chosen.queries))
        singles = self._singles(chosen)
        if chosen.count == 1:
            noise = self._noise(chosen, np.ones((chosen.queries, 1)), {})
            return Answered(
                singles[:, 0], np.sqrt(noise), self._cut(chosen, singles, singles[:, 0]), *_never(chosen.queries)
            )
        parts = {pair: self._pair(chosen, *pair) for pair in chosen.pairs}
        both = np.zeros((chosen.queries, len(chosen.places)))
        for part in parts.values():
            both[part.rows, part.columns] = part.value
        if chosen.count == 2:
            moved = np.tile([0.0, 0.0, 1.0], (chosen.queries, 1))  # the answer is the pair
            noise = self._noise(chosen, moved, parts)
            doubt = np.hypot(self._cut(chosen, singles, both[:, 0]), self._guessed(chosen, singles, parts, moved))
            return Answered(both[:, 0], np.sqrt(noise), doubt, *_never(chosen.queries))
        return self._more(chosen, singles, both, parts)

    def _more(
        self, chosen: "_Chosen", singles: Floats, both: Floats, parts: "Mapping[tuple[int, int], _Part]"
    ) -> Answered:
        """Of three attributes or more."""
        by = "weighted update" if self.completion == "weighted update" else "entropy"
        flat = joint(singles, both, "entropy", tolerance=_SETTLED, most=_MOST_ROUNDS)
        if not self.pairs:
            return self._errors(chosen, np.prod(singles, axis=1), flat, flat, singles, parts)
        states = self._states(chosen)
        near = joint(singles, both, "entropy", _mixed(states), tolerance=_SETTLED, most=_MOST_ROUNDS)
        if self.completion == "copula":
            return self._errors(chosen, self._additive(chosen, states, singles, both), near, flat, singles, parts)
        own = joint(singles, both, by, tolerance=_SETTLED, most=_MOST_ROUNDS) if by == "weighted update" else flat
        return self._errors(chosen, own.answer, own, near, singles, parts)

    def _errors(
        self,
        chosen: "_Chosen",
        answer: Floats,
        fitted: Joint,
        other: Joint,
        singles: Floats,
        parts: "Mapping[tuple[int, int], _Part]",
    ) -> Answered:
        """Answers about three attributes or more, with two completions of their pairs: the model's own, and another."""
        moved = movable(fitted.z, singles)
        noise = self._noise(chosen, moved, parts)
        doubt = np.hypot(self._cut(chosen, singles, answer), self._guessed(chosen, singles, parts, moved))
        doubt = np.hypot(doubt, (fitted.answer - other.answer) / 2)
        doubt = np.hypot(doubt, _UNSEEN * beyond_pairs(singles))
        return Answered(answer, np.sqrt(noise), doubt, fitted.iterations, fitted.converged)

    def _additive(self, chosen: "_Chosen", states: Floats, singles: Floats, both: Floats) -> Floats:
        """The sum of the weights inside, with what marginals and pairs have beyond the records."""
        found = states[:, -1]
        single, pair = margins(states)
        missing = singles - single
        for j in range(chosen.count):
            found = found + missing[:, j] * np.prod(np.delete(singles, j, axis=1), axis=1)
        for place, (j, k) in enumerate(chosen.places):
            beyond = both[:, place] - pair[:, place] - missing[:, j] * singles[:, k] - singles[:, j] * missing[:, k]
            found = found + beyond * np.prod(np.delete(singles, (j, k), axis=1), axis=1)
        return found

    def _singles(self, chosen: "_Chosen") -> Floats:
        found = np.zeros((chosen.queries, chosen.count))
        for j, rows, column in chosen.attributes():
            found[rows, column] = chosen.mask(j)[rows] @ self.margins[j].value
        return found

    def _pair(self, chosen: "_Chosen", first: int, second: int) -> "_Part":
        """The answers of all queries about a pair, and what they move with."""
        rows, columns = chosen.pairs[first, second]
        left, right = self.margins[first], self.margins[second]
        u, v = chosen.mask(first)[rows], chosen.mask(second)[rows]
        pair = self.pairs.get((first, second))
        if pair is None:
            one, other = u @ left.value, v @ right.value
            spread = np.ones((1, left.value.size)), np.ones((1, right.value.size))
            return _Part(rows, columns, one * other, (other[:, None] * spread[0], one[:, None] * spread[1]), None)
        down, across = sums(u * left.value, pair.cuts[0]), sums(v * right.value, pair.cuts[1])
        along, beside = across @ pair.ratio.T, down @ pair.ratio
        # By a value's share the answer moves with the chance of being inside in the other attribute, given that value.
        by_left = np.repeat(np.minimum(along, 1.0), np.diff(pair.cuts[0]), axis=1)
        by_right = np.repeat(np.minimum(beside, 1.0), np.diff(pair.cuts[1]), axis=1)
        inner = share_inside(u, left.value, pair.grid[0]), share_inside(v, right.value, pair.grid[1])
        hidden = pair.inside.variance(down, across)
        return _Part(rows, columns, np.einsum("qi,qi->q", down, along), (by_left, by_right), inner, hidden)

    # Errors ----------------------------------------------------------------------------------------------------

    def _noise(self, chosen: "_Chosen", moved: Floats, parts: "Mapping[tuple[int, int], _Part]") -> Floats:
        """The variance of the answers that have these derivatives by their singles, and then their pairs."""
        gradients = {j: np.zeros((chosen.queries, self.shape[j])) for j, _, _ in chosen.attributes()}
        for j, rows, column in chosen.attributes():
            gradients[j][rows] += moved[rows, column, None]
        total, leaning = np.zeros((2, chosen.queries))
        for (first, second), part in parts.items():
            weight = moved[part.rows, chosen.count + part.columns]
            for j, slope in zip((first, second), part.slopes, strict=True):
                gradients[j][part.rows] += weight[:, None] * slope
            if part.inner is not None:
                pair = self.pairs[first, second]
                total[part.rows] += weight**2 * pair.noise.variance(*part.inner)
                if pair.lean is not None:
                    leaning[part.rows] += weight * ((part.inner[0] @ pair.lean) * part.inner[1]).sum(axis=1)
        total += leaning**2
        for j, rows, _ in chosen.attributes():
            total[rows] += self.margins[j].variance(gradients[j][rows] * chosen.mask(j)[rows])
        return total

    def _cut(self, chosen: "_Chosen", singles: Floats, answer: Floats) -> Floats:
        """The doubt from cells of marginals that queries cut: it matters as far as the other attributes let it."""
        total = np.zeros(chosen.queries)
        for j, rows, column in chosen.attributes():
            margin = self.margins[j]
            cut = share_inside(chosen.mask(j)[rows], np.ones(margin.value.size), margin.cuts)
            own = ((_GUESS * sums(margin.value, margin.cuts) * 4 * cut * (1 - cut)) ** 2).sum(axis=1)
            single = singles[rows, column]
            total[rows] += own * np.divide(answer[rows], single, out=np.ones_like(single), where=single > 0) ** 2
        return np.sqrt(total)

    def _guessed(
        self, chosen: "_Chosen", singles: Floats, parts: "Mapping[tuple[int, int], _Part]", moved: Floats
    ) -> Floats:
        """The doubt from cells of pairs that queries cut, and from pairs of which nothing is known.

        What is wrong about one pair is likely to be wrong about the others in the same way, so that doubts add up.
        """
        total = np.zeros(chosen.queries)
        for (first, second), part in parts.items():
            weight = np.abs(moved[part.rows, chosen.count + part.columns])
            if part.inner is None:
                which = np.array(chosen.places)[part.columns]
                one, other = (singles[part.rows, which[:, side]] for side in (0, 1))
                square = _UNKNOWN**2 * np.clip(one * (1 - one) * other * (1 - other), 0.0, None)
            else:
                left, right = (inner * (1 - inner) for inner in part.inner)
                share = _GUESS * self.pairs[first, second].departure
                square = share**2 * _cut_mass(self._mass(first, second), left, right) + part.hidden
            total[part.rows] += weight * np.sqrt(square)
        return total

    def _mass(self, first: int, second: int) -> Floats:
        """The table of a pair on the cells of its grid."""
        if (first, second) not in self._masses:
            pair = self.pairs[first, second]
            left, right = self.margins[first].value, self.margins[second].value
            table = pair.ratio * np.outer(sums(left, pair.cuts[0]), sums(right, pair.cuts[1]))
            rows, columns = (np.searchsorted(cuts, grid) for cuts, grid in zip(pair.cuts, pair.grid, strict=True))
            self._masses[first, second] = sums(sums(table, columns).T, rows).T
        return self._masses[first, second]

    @cached_property
    def _masses(self) -> dict[tuple[int, int], Floats]:
        return {}

    def _states(self, chosen: "_Chosen") -> Floats:
        """The weight of the records in each of the 2^lambda states of each query: inside or outside, in each attribute.

        A value that is partly inside has that part of its records inside.
        """
        columns, weights = self._records
        found = np.zeros((chosen.queries, 1 << chosen.count))
        step = max(1, _CHUNK // (_RECORDS << chosen.count if chosen.partial else _RECORDS))
        for low in range(0, chosen.queries, step):
            rows = slice(low, low + step)
            count = _products if chosen.partial else _counted
            found[rows] = count([chosen.inside(rows, column, columns) for column in range(chosen.count)], weights)
        return found


def beyond_pairs(singles: Floats) -> Floats:
    """How far the parts of being inside go that no function of two attributes tells: the root of their sum of squares.

    Being inside a box is a product of p_l + (inside_l - p_l). Multiplied out, its parts with k factors of the second
    kind are uncorrelated if attributes are independent (Hoeffding 1948), and those of three or more cannot be seen in
    pairs. A part counts as the product of p_l, for the others, and of the mean distances |inside_l - p_l|, which are
    2 p_l (1 - p_l). So for a small box it is in proportion to its mass, as it would be for any bounded density. (With
    standard deviations a hardly filled cell of a table of three would be stated a hundred times what it has.)

    >>> beyond_pairs(np.array([[0.5, 0.5, 0.5], [0.5, 0.5, 1.0]])).tolist()
    [0.125, 0.0]
    """
    none, one, two, more = np.ones(len(singles)), *np.zeros((3, len(singles)))  # such factors
    for p in np.clip(singles, 0.0, 1.0).T:
        held, apart = p**2, (2 * p * (1 - p)) ** 2
        more = more * (held + apart) + two * apart
        none, one, two = none * held, one * held + none * apart, two * held + one * apart
    return np.sqrt(more)


def _mixed(states: Floats) -> Floats:
    """With a little of an even table, so that no state is without."""
    return (states + _FLOOR / states.shape[1]) / (1 + _FLOOR)


def _counted(inside: Sequence[NDArray[np.uint8]], weights: Floats) -> Floats:
    """The weight in each state, where everything is either inside or outside."""
    states = 1 << len(inside)
    found = np.empty((len(inside[0]), states))
    state = np.zeros(inside[0].shape, dtype=np.min_scalar_type(states - 1))
    for own in inside:
        state <<= 1
        state |= own
    for row, own in zip(found, state, strict=True):
        row[:] = np.bincount(own, weights, minlength=states)
    return found


def _products(inside: Sequence[NDArray], weights: Floats) -> Floats:
    """The weight in each state, where values may be partly inside."""
    found = np.broadcast_to(weights, inside[0].shape)[:, None]
    for own in inside:
        found = np.stack([found * (1 - own)[:, None], found * own[:, None]], axis=2).reshape(len(own), -1, len(weights))
    return found.sum(axis=2)


def movable(z: Floats, singles: Floats) -> Floats:
    """How answers move with their singles and pairs. An answer of nothing moves too: what it would be is not known.

    A table with empty states can move in no direction, so a little of the product of the singles is mixed in.
    """
    if singles.shape[1] == 2:
        return np.tile([0.0, 0.0, 1.0], (len(z), 1))
    product = np.ones((len(z), 1))
    for column in np.clip(singles, _LITTLE, 1 - _LITTLE).T:
        product = np.concatenate([product * (1 - column)[:, None], product * column[:, None]], axis=1)
    # Attribute 0 is the first digit of a state, so each column's states have to go inside those of the ones before.
    order = np.arange(z.shape[1]).reshape((2,) * singles.shape[1]).transpose().reshape(-1)
    return answer_gradients((1 - _LITTLE) * z + _LITTLE * product[:, order])


def _cut_mass(mass: Floats, left: Floats, right: Floats) -> Floats:
    """The sum over cells of mass^2 (2 left + 2 right)^2, where left and right say how far rows and columns are cut."""
    square = mass**2
    return 4 * (
        (left**2 @ square).sum(axis=1)
        + (right**2 @ square.T).sum(axis=1)
        + 2 * np.einsum("qi,ij,qj->q", left, square, right, optimize=True)
    )


class _Part(NamedTuple):
    """A pair in some queries: which, where it stands among their pairs, the answers and how they move with margins."""

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    value: Floats
    slopes: tuple[Floats, Floats]
    inner: tuple[Floats, Floats] | None
    hidden: Floats | float = 0.0


@dataclass(frozen=True, eq=False)
class _Chosen:
    """Queries about equally many attributes. `which` has their attributes, a row each."""

    which: NDArray[np.intp]
    masks: tuple[Floats, ...]
    rows: NDArray[np.intp]

    @classmethod
    def of(cls, queries: Queries, rows: NDArray[np.intp], count: int) -> "_Chosen":
        which = np.array([queries.attributes[row] for row in rows], dtype=np.intp).reshape(len(rows), count)
        return cls(which, queries.masks, rows)

    @property
    def queries(self) -> int:
        return len(self.which)

    @property
    def count(self) -> int:
        return self.which.shape[1]

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """The pairs of columns, in the order of `combine`."""
        return list(combinations(range(self.count), 2))

    def inside(self, rows: slice, column: int, records: Sequence[NDArray[np.int32]]) -> NDArray:
        """How far each record is inside in one of the attributes, for some of the queries: bytes if it is or is not."""
        which = self.which[rows, column]
        found = np.empty((len(which), len(records[0])), dtype=np.float64 if self.partial else np.uint8)
        for j in np.unique(which).tolist():
            here = np.flatnonzero(which == j)
            found[here] = self.mask(j)[rows][here].astype(found.dtype).take(records[j], axis=1)
        return found

    @cached_property
    def partial(self) -> bool:
        """Whether a value may be partly inside."""
        return any(((self.mask(j) != 0) & (self.mask(j) != 1)).any() for j, _, _ in self.attributes())

    def mask(self, j: int) -> Floats:
        """The weights of an attribute's values in each query."""
        if j not in self._own:
            self._own[j] = np.asarray(self.masks[j], dtype=np.float64)[self.rows]
        return self._own[j]

    @cached_property
    def _own(self) -> dict[int, Floats]:
        return {}

    @cached_property
    def _attributes(self) -> list[tuple[int, NDArray[np.intp], NDArray[np.intp]]]:
        found = []
        for j in np.unique(self.which).tolist():
            rows, columns = np.nonzero(self.which == j)
            found.append((j, rows, columns))
        return found

    def attributes(self) -> Iterator[tuple[int, NDArray[np.intp], NDArray[np.intp]]]:
        """Each attribute, the queries that restrict it, and its column in them."""
        yield from self._attributes

    @cached_property
    def pairs(self) -> dict[tuple[int, int], tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Each pair, the queries that restrict both, and its place among their pairs."""
        found: dict[tuple[int, int], list[tuple[NDArray, NDArray]]] = {}
        for place, (one, other) in enumerate(self.places):
            codes = self.which[:, one] * len(self.masks) + self.which[:, other]
            for code in np.unique(codes).tolist():
                rows = np.flatnonzero(codes == code)
                found.setdefault(divmod(code, len(self.masks)), []).append((rows, np.full(len(rows), place)))
        return {
            (int(pair[0]), int(pair[1])): (np.concatenate([a for a, _ in each]), np.concatenate([b for _, b in each]))
            for pair, each in sorted(found.items())
        }


def _by_count(queries: Queries) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """The queries by the number of attributes that they restrict."""
    counts = np.array([len(each) for each in queries.attributes], dtype=np.intp)
    for count in np.unique(counts).tolist():
        yield count, np.flatnonzero(counts == count)


def _never(queries: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Nothing was iterated."""
    return np.zeros(queries, dtype=np.int64), np.ones(queries, dtype=bool)


def common_cuts(cuts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The cuts of all of them."""
    return np.unique(np.concatenate(list(cuts)))
