"""A query about many attributes, from its answers about one and about two of them.

A query of lambda attributes splits everybody into 2^lambda *states*: inside or outside its set, for every attribute.
Known are the shares of users inside in one attribute (`singles`) and in two (`pairs`); asked is the share inside in
all. Section 4.4 of 004 looks for a table z of all states that has the pairs as its sums.

- `"weighted update"` is Algorithm 2: each pair in turn, the states inside in both are scaled to its answer. As printed
  z does not stay a distribution; here it is scaled back to one after every update. From the even table; the singles
  are not used.
- `"quadrants"` scales all four quadrants of each pair (inside or outside in one, and in the other), which the singles
  make known. This is iterative proportional fitting: each update is the projection, in relative entropy, onto the
  tables that have this pair, so it converges to the table of *largest entropy* that has all of them (appendix A.8).
- `"entropy"` finds that same table by Newton's method on the dual. It belongs to the exponential family
  z_x ~ start_x * exp(sum of theta_S over the S inside x), where S runs over the single attributes and the pairs, and
  theta minimises log(sum of z) - theta . answers, a convex function. A step costs more than a round of quadrants,
  but where quadrants takes hundreds of rounds (strong correlation, answers near their limits) it takes ten steps.

A `start` other than the even table gives the least relative entropy to it in place of the largest entropy.

**Answers that contradict each other.** Noise does that. Every pair is moved into the limits that its singles leave,
[max(0, a + b - 1), min(a, b)]. From three attributes on all pairs together may still have no table. Then quadrants ends
in a cycle, slowly, and z has the last pair exactly; entropy, which has a small penalty on theta^2, ends at the table
whose answers are the nearest in Euclidean distance. `misfit` tells how far the answers of z are from those given.

**Moments.** m_S, the share of users inside in all attributes of S, is the sum of z over the states that hold S. All
2^lambda of them are found by lambda additions (the zeta transform), and both derivatives of the dual are made of them:
the mean of feature S is m_S, the mean of the product of features S and T is m_(S or T). So is `answer_gradients`, the
derivative of the answer p with respect to the answers that went in: the covariance of the query with feature S is
p - p * m_S, and

    dp/dm = p * (1 - m)' Cov^-1,   Cov_ST = m_(S or T) - m_S * m_T.

States are numbered in binary with attribute 0 first, a one meaning inside: the query itself is the last.
Arrays here have queries last, so that each operation runs along all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_real, real_array
from dither.errors import ParameterError

Floats = NDArray[np.float64]
Inside = NDArray[np.bool_]

_MOST_ATTRIBUTES = 16
_PENALTIES = 1e-3, 1e-8  # at first and at last; theta times the last is how far it moves the answers
_FALL = 10
_DOWNHILL = 0.3  # of what the slope promises
_ROUNDS_BEFORE = 8
_INWARD = 1e-10  # toward independence: pairs at limits that contradict each other would leave no state
_BLOCK = 1 << 21  # numbers in the largest array of a Newton step


@dataclass(frozen=True, eq=False)
class Joint:
    """For each query the shares of all states, and how they were found."""

    z: Floats  # (queries, 2**lambda); the last state is the query
    iterations: NDArray[np.int64]
    converged: Inside
    misfit: Floats  # the largest difference between an answer of z and the one given, once within its limits

    @property
    def answer(self) -> Floats:
        """The share of users inside in all attributes."""
        return self.z[:, -1]


def joint(
    singles: NDArray,
    pairs: NDArray,
    by: str = "entropy",
    start: NDArray | None = None,
    tolerance: float = 1e-7,
    most: int = 500,
) -> Joint:
    """The table of all states of many queries about equally many attributes.

    `singles` has a row for each query and a column for each attribute; `pairs` has the columns of
    `itertools.combinations(range(attributes), 2)`. A query is done when the sum of all changes of its table in one
    round is below `tolerance` (004: less than one in the number of users) or after `most` rounds. One or two
    attributes leave nothing to fit, and no `start` to choose from: the answer is the one given, within its limits.

    >>> halves, together = np.full((1, 3), 0.5), np.full((1, 3), 0.4)
    >>> for by in ("weighted update", "quadrants", "entropy"):
    ...     print(by, joint(halves, together, by).answer.round(4))
    weighted update [0.2731]
    quadrants [0.35]
    entropy [0.35]
    >>> joint(np.array([[0.5, 0.5]]), np.array([[0.4]])).z.round(4)
    array([[0.4, 0.1, 0.1, 0.4]])
    """
    alone, both = _checked(singles, pairs)
    attributes, queries = alone.shape
    if by not in _WAYS:
        raise ParameterError(f"by must be one of {', '.join(map(repr, _WAYS))}")
    if start is not None and by == "weighted update":
        raise ParameterError("weighted update starts from the even table; use by='quadrants' or by='entropy'")
    if not (tolerance := checked_real("tolerance", tolerance)) > 0:
        raise ParameterError("tolerance is a sum of changes that is small enough to end: above 0, for example 1e-7")
    most, first = checked_count("most", most, least=1), _checked_start(start, queries, attributes)
    targets = _Targets(alone, both, _quadrants(alone, both))
    if attributes <= 2:
        z = np.array([1 - alone[0], alone[0]]) if attributes == 1 else targets.quadrants.reshape(4, queries)
        iterations, converged = np.zeros(queries, dtype=np.int64), np.ones(queries, dtype=bool)
    else:
        z, iterations, converged = _WAYS[by](targets, first, tolerance, most)
    apart = np.abs(_answers(z) - np.concatenate([alone, targets.quadrants[:, 1, 1]]))
    if by == "weighted update":  # it was not told the singles
        apart = apart[attributes:]
    return Joint(np.ascontiguousarray(z.T), iterations, converged, apart.max(axis=0, initial=0.0))


def margins(z: NDArray) -> tuple[Floats, Floats]:
    """The singles and the pairs of tables of states: what `joint` was to meet.

    >>> singles, pairs = margins(np.array([[0.4, 0.1, 0.2, 0.3]]))
    >>> singles.round(3).tolist(), pairs.tolist()
    ([[0.5, 0.4]], [[0.3]])
    """
    table, attributes = _checked_tables(z)
    found = _answers(table)
    return found[:attributes].T.copy(), found[attributes:].T.copy()


def answer_gradients(z: NDArray) -> Floats:
    """The derivative of each query's answer with respect to its singles, and then its pairs.

    For tables that were found by quadrants or entropy, from any start, and meet their answers. An answer at its limit,
    such as a pair of 0, can move in one direction only; directions in which z cannot move at all count as 0.

    >>> answer_gradients(np.full((1, 8), 0.125)).round(3).tolist()
    [[-0.25, -0.25, -0.25, 0.5, 0.5, 0.5]]
    >>> np.abs(answer_gradients(np.array([[0.4, 0.1, 0.1, 0.4]])).round(3)).tolist()  # the answer is the pair
    [[0.0, 0.0, 1.0]]
    """
    table, attributes = _checked_tables(z)
    shape = _features(attributes)
    found = np.empty((table.shape[1], len(shape.states)))
    for here in _chunks(table.shape[1], shape.unions.size + len(table)):
        moments = _moments(table[:, here])
        mean = moments[shape.states]
        toward = moments[-1] * (1 - mean)
        # In units of standard deviations, so that rare and frequent answers count alike.
        scale = np.sqrt(np.maximum(mean * (1 - mean), 0))
        inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
        covariance = _covariance(moments, shape) * inverse.T[:, :, None] * inverse.T[:, None, :]
        solved = np.linalg.pinv(covariance, rcond=1e-11, hermitian=True) @ (toward * inverse).T[:, :, None]
        found[here] = solved[:, :, 0] * inverse.T
    return found + 0.0  # no negative zeros


# States and features ---------------------------------------------------------------------------------------------


class _Features(NamedTuple):
    """The single attributes and the pairs, as sets of attributes in binary."""

    states: NDArray[np.intp]  # the state that is inside in these alone
    unions: NDArray[np.intp]  # of any two of them


@cache
def _features(attributes: int) -> _Features:
    ones = [1 << (attributes - 1 - j) for j in range(attributes)]
    states = np.array([*ones, *(a | b for a, b in combinations(ones, 2))], dtype=np.intp)
    return _Features(states, states[:, None] | states[None, :])


@cache
def _views(attributes: int) -> list[tuple[int, int, int, int, int]]:
    """For each pair, the shape that makes its two attributes the second and fourth axis of a table of states."""
    return [(1 << j, 2, 1 << (k - j - 1), 2, 1 << (attributes - k - 1)) for j, k in combinations(range(attributes), 2)]


@cache
def _quadrant_of(attributes: int) -> Floats:
    """For each pair and quadrant, one for the states in it."""
    inside = np.arange(1 << attributes) >> np.arange(attributes)[::-1, None] & 1
    found = [2 * inside[j] + inside[k] == np.arange(4)[:, None] for j, k in combinations(range(attributes), 2)]
    return np.array(found, dtype=np.float64)


def _moments(z: Floats) -> Floats:
    """The sum of z over all states that hold S, for every S."""
    found = z.copy()
    for axis in range(len(z).bit_length() - 1):
        view = found.reshape(1 << axis, 2, -1)
        view[:, 0] += view[:, 1]
    return found


def _answers(z: Floats) -> Floats:
    return _moments(z)[_features(len(z).bit_length() - 1).states]


def _covariance(moments: Floats, shape: _Features) -> Floats:
    """Of the features, one matrix a query."""
    mean = moments[shape.states].T
    return moments.T[:, shape.unions] - mean[:, :, None] * mean[:, None, :]


class _Targets(NamedTuple):
    """What tables are to meet."""

    alone: Floats  # inside in one attribute
    both: Floats  # inside in two, as given
    quadrants: Floats  # of each pair


def _quadrants(alone: Floats, both: Floats) -> Floats:
    """For each pair the four shares [outside or inside in the first][in the second], none of them negative."""
    chosen = np.array(list(combinations(range(len(alone)), 2)), dtype=np.intp).reshape(-1, 2)
    a, b = alone[chosen[:, 0]], alone[chosen[:, 1]]
    inside = np.clip(both, np.maximum(0, a + b - 1), np.minimum(a, b))
    if len(alone) > 2:
        inside += _INWARD * (a * b - inside)
    rest = np.maximum(1 - a - b + inside, 0)
    return np.array([[rest, b - inside], [a - inside, inside]]).transpose(2, 0, 1, 3)


# Ways ------------------------------------------------------------------------------------------------------------

Found = tuple[Floats, NDArray[np.int64], Inside]


def _scaling(
    first: Floats, targets: Floats, tolerance: float, most: int, once: Callable[[Floats, Floats], None]
) -> Found:
    """Rounds of updates, in place, until nothing changes; queries that are done leave the working set."""
    z, iterations = first.copy(), np.full(first.shape[1], most, dtype=np.int64)
    converged = np.zeros(first.shape[1], dtype=bool)
    here, work = np.arange(first.shape[1]), first.copy()
    for number in range(1, most + 1):
        before = work.copy()
        once(work, targets)
        np.subtract(before, work, out=before)
        done = np.abs(before, out=before).sum(axis=0) < tolerance
        if done.any():
            ready = here[done]
            z[:, ready], iterations[ready], converged[ready] = work[:, done], number, True
            keep = ~done  # compress keeps queries side by side in memory, indexing does not
            here, work, targets = here[keep], np.compress(keep, work, axis=1), np.compress(keep, targets, axis=-1)
        if not here.size:
            break
    z[:, here] = work
    return z, iterations, converged


def _by_quadrants(targets: _Targets, first: Floats, tolerance: float, most: int) -> Found:
    attributes = len(targets.alone)
    quadrants = targets.quadrants.reshape(len(targets.both), 4, first.shape[1])
    views, members = _views(attributes), _quadrant_of(attributes)

    def once(work: Floats, wanted: Floats) -> None:
        for view, member, target in zip(views, members, wanted, strict=True):
            found = member @ work
            np.maximum(found, 1e-300, out=found)  # an empty quadrant stays empty
            np.divide(target, found, out=found)
            work.reshape(*view, -1)[...] *= found.reshape(1, 2, 1, 2, 1, -1)

    z, iterations, converged = _scaling(first, quadrants, tolerance, most, once)
    total = z.sum(axis=0)  # below one only where a start forbids what the answers demand
    return np.where(total > 0, z / np.maximum(total, 1e-300), first), iterations, converged


def _by_weighted_update(targets: _Targets, first: Floats, tolerance: float, most: int) -> Found:
    attributes = len(targets.alone)
    views, members = _views(attributes), _quadrant_of(attributes)[:, 3]

    def once(work: Floats, wanted: Floats) -> None:
        for view, member, target in zip(views, members, wanted, strict=True):
            found = member @ work
            # If all was inside and none should be, nothing would be left to scale back to one.
            stays = (found <= 0) | (1 - found + target <= 0)
            work.reshape(*view, -1)[:, 1, :, 1] *= np.divide(target, found, out=np.ones_like(found), where=~stays)
            work /= work.sum(axis=0)

    return _scaling(first, targets.both, tolerance, most, once)


def _by_entropy(targets: _Targets, first: Floats, tolerance: float, most: int) -> Found:
    # A few rounds of quadrants stay in the exponential family and come near. Newton's method starts from their table.
    near, _, _ = _by_quadrants(targets, first, tolerance, min(most, _ROUNDS_BEFORE))
    z, iterations = near.copy(), np.empty(first.shape[1], dtype=np.int64)
    converged = np.empty(first.shape[1], dtype=bool)
    shape = _features(len(targets.alone))
    for here in _chunks(first.shape[1], shape.unions.size + 4 * len(first)):
        with np.errstate(divide="ignore"):  # states without mass keep none
            base = np.log(near[:, here])
        wanted = np.concatenate([targets.alone[:, here], targets.quadrants[:, 1, 1, here]])
        z[:, here], iterations[here], converged[here] = _newton(base, wanted, shape, tolerance, most)
    return z, iterations, converged


def _inner(theta: Floats, states: int, shape: _Features) -> Floats:
    """For each state the sum of theta over all S inside it."""
    found = np.zeros((states, theta.shape[1]))
    found[shape.states] = theta
    for axis in range(states.bit_length() - 1):
        view = found.reshape(1 << axis, 2, -1)
        view[:, 1] += view[:, 0]
    return found


class _Dual(NamedTuple):
    """Where the search is: for each query the parameters, the table they give, and the dual function there."""

    theta: Floats
    z: Floats
    value: Floats

    def with_penalty(self, penalty: Floats) -> Floats:
        return self.value + penalty / 2 * (self.theta**2).sum(axis=0)

    @classmethod
    def at(cls, theta: Floats, base: Floats, wanted: Floats, shape: _Features) -> "_Dual":
        energy = _inner(theta, len(base), shape)
        energy += base
        top = energy.max(axis=0)
        z = np.exp(np.subtract(energy, top, out=energy), out=energy)
        total = z.sum(axis=0)
        z /= total
        value = top + np.log(total) - (theta * wanted).sum(axis=0)
        return cls(theta, z, value)

    def kept(self, rows: NDArray) -> "_Dual":
        return _Dual(self.theta[:, rows], self.z[:, rows], self.value[rows])


def _newton(base: Floats, wanted: Floats, shape: _Features, tolerance: float, most: int) -> Found:
    """Newton's method on the dual, for all queries at once.

    Where no logarithm of z moves by more than `reach` against another, the curvature changes by no more than a
    constant factor, so short steps can be trusted; the reach grows while they succeed. Answers that contradict each
    other send theta as far away as the penalty lets it, so the penalty starts large, and falls with every whole step.
    """
    queries = base.shape[1]
    z, iterations, converged = np.empty_like(base), np.full(queries, most, dtype=np.int64), np.zeros(queries, bool)
    here, now = np.arange(queries), _Dual.at(np.zeros_like(wanted), base, wanted, shape)
    reach, penalty = np.ones(queries), np.full(queries, _PENALTIES[0])
    for number in range(1, most + 1):
        moments = _moments(now.z)
        gradient = moments[shape.states] - wanted + penalty * now.theta
        hessian = _covariance(moments, shape) + penalty[:, None, None] * np.eye(len(wanted))
        step = -np.linalg.solve(hessian, gradient.T[:, :, None])[:, :, 0].T
        share = np.minimum(1, reach / np.maximum(np.ptp(_inner(step, len(base), shape), axis=0), 1e-300))
        after, taken = _search(now, share * step, gradient, penalty, base, wanted, shape)
        whole = (share == 1) & (taken == 1)
        still = np.abs(after.z - now.z).sum(axis=0) < tolerance
        done = whole & still & (penalty <= _PENALTIES[1])
        now, reach = after, reach * np.where(taken == 1, 4, taken)
        penalty = np.where(whole, np.maximum(penalty / _FALL, _PENALTIES[1]), penalty)
        if done.any():
            ready, keep = here[done], ~done
            z[:, ready], iterations[ready], converged[ready] = now.z[:, done], number, True
            here, base, wanted, now = here[keep], base[:, keep], wanted[:, keep], now.kept(keep)
            reach, penalty = reach[keep], penalty[keep]
        if not here.size:
            break
    z[:, here] = now.z
    return z, iterations, converged


def _search(
    now: _Dual, step: Floats, gradient: Floats, penalty: Floats, base: Floats, wanted: Floats, shape: _Features
) -> tuple[_Dual, Floats]:
    """The first of 1, 1/2, 1/4, ... of each step that is downhill enough, and which it was."""
    slope, value = (step * gradient).sum(axis=0), now.with_penalty(penalty)
    enough = value + 1e-13 * (1 + np.abs(value))  # rounding, near the bottom
    after = _Dual.at(now.theta + step, base, wanted, shape)
    taken = np.ones(step.shape[1])
    short = after.with_penalty(penalty) > enough + _DOWNHILL * slope
    while short.any() and taken.min() > 1e-9:
        rows = np.flatnonzero(short)
        taken[rows] /= 2
        nearer = _Dual.at(now.theta[:, rows] + taken[rows] * step[:, rows], base[:, rows], wanted[:, rows], shape)
        after.theta[:, rows], after.z[:, rows], after.value[rows] = nearer
        short[rows] = nearer.with_penalty(penalty[rows]) > enough[rows] + _DOWNHILL * taken[rows] * slope[rows]
    return after, taken


_WAYS: dict[str, Callable[[_Targets, Floats, float, int], Found]] = {
    "weighted update": _by_weighted_update,
    "quadrants": _by_quadrants,
    "entropy": _by_entropy,
}


def _chunks(queries: int, numbers: int) -> list[slice]:
    """So many queries at a time that the arrays of a step stay small."""
    size = max(1, _BLOCK // numbers)
    return [slice(first, first + size) for first in range(0, queries, size)]


# Checks ----------------------------------------------------------------------------------------------------------


def _checked(singles: NDArray, pairs: NDArray) -> tuple[Floats, Floats]:
    alone, both = real_array(singles), real_array(pairs)
    if alone is None or both is None or alone.ndim != 2 or both.ndim != 2 or len(alone) != len(both):
        raise ParameterError("singles and pairs are tables of numbers with one row for each query")
    attributes = alone.shape[1]
    if not 1 <= attributes <= _MOST_ATTRIBUTES:
        raise ParameterError(f"a query has 1 to {_MOST_ATTRIBUTES} attributes: its table has 2^attributes states")
    if both.shape[1] != attributes * (attributes - 1) // 2:
        raise ParameterError("pairs needs a column for each of itertools.combinations(range(attributes), 2)")
    if not (np.isfinite(alone).all() and np.isfinite(both).all()):
        raise ParameterError("singles and pairs must be finite")
    return np.clip(alone.T, 0.0, 1.0), np.clip(both.T, 0.0, 1.0)


def _checked_start(start: NDArray | None, queries: int, attributes: int) -> Floats:
    if start is None:
        return np.full((1 << attributes, queries), 0.5**attributes)
    found = real_array(start)
    if found is None or found.shape != (queries, 1 << attributes):
        raise ParameterError("start needs a row for each query and a column for each of 2^attributes states")
    if not (np.isfinite(found).all() and (found >= 0).all() and (found.sum(axis=1) > 0).all()):
        raise ParameterError("start must be finite, not negative, and not zero in all states of a query")
    return np.ascontiguousarray(found.T) / found.sum(axis=1)


def _checked_tables(z: NDArray) -> tuple[Floats, int]:
    found = real_array(z)
    attributes = 0 if found is None or found.ndim != 2 else found.shape[1].bit_length() - 1
    if found is None or attributes < 1 or found.shape[1] != 1 << attributes:
        raise ParameterError("z needs a row for each query and a column for each of its 2^attributes states")
    return np.ascontiguousarray(found.T), attributes
