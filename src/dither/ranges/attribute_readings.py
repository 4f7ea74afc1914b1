"""What the reports about grids tell about single attributes, as linear readings of the shares of their values.

Whatever a group of users was asked, what it tells about attribute j is linear in the shares f of the values of j, and
can be put together with what other questions tell about it (`estimation.linear_readings`).

- **Cells.** A frequency oracle tells the share of each cell of its grid, without bias and with a known covariance. A
  grid of several attributes tells its sums along the others (`Frequencies.along`), with what reports support at once:
  the sums of projective geometry have down to a third of the variance that as many independent cells would have, or up
  to three times as much. Of many cells, and where it is not known what is supported at once, errors are taken to be
  independent.
- **Outputs.** Output y of a window comes with a chance p_y = sum_k P(y | k) f_k, which is linear in f. Of users whose
  values are fixed, the shares of the outputs have the covariance (diag(p) - L diag(f) L') / n, L = P(y | k). For f,
  which nobody knows, the fit of a few steps of EM is put in: it hardly moves p. This reading is taken where cells are
  few, so that the outputs tell them apart: simulated at epsilon .5 to 4, up to 64 cells and 500 to 5,000 reports, means
  and shares that are read off it have no bias that 200 to 1,500 runs could see, and the variance that is stated; the
  variance of a mean is 3 to 14% below that of the score.
- **Mean.** Of more cells, a window tells the mean of the score (`mechanisms.mean`): one row, the middles of the cells
  on a line from -1 to 1, or their places on the scale of a second phase (`quantile_places`).

**Of whom?** The truth is the share among all users who might have been asked. A group of n among N misses it by a
further (diag(f) - f f') (1/n - 1/N), which is part of each covariance. Groups do not overlap, so that their errors from
this are a little opposed to each other: who puts readings together says what N is to stand here for that
(`planning.attribute_evidence`).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.estimation.em import maximum
from dither.estimation.linear_readings import LinearReading
from dither.estimation.simplex import onto_simplex
from dither.mechanisms.window_evidence import window_evidence
from dither.ranges.user_groups import Collected

Floats = NDArray[np.float64]

_MOST_CELLS = 64  # that the outputs of a window are to tell apart
_MOST_OUTPUTS = 128  # groups of outputs: far narrower than what can be seen
_LEAST_SEEN = 1e-4  # of what is seen best: outputs that tell cells apart less than this do not tell them apart
_STEPS = 50  # of EM
_MOST_ENTRIES = 1 << 22  # of a matrix


def attribute_readings(
    collected: Sequence[Collected], shape: Sequence[int], among: int
) -> dict[int, tuple[LinearReading, ...]]:
    """For each attribute what these groups tell about the shares of its values among so many users."""
    found: dict[int, list[LinearReading]] = {j: [] for j in range(len(shape))}
    for each in collected:
        asked = replace(each, users=among)
        for axis, j in enumerate(each.grid.attributes):
            too_large = each.grid.shape[axis] * shape[j] > _MOST_ENTRIES and each.value is not None
            if each.n and not too_large:
                found[j].append(_of_window(asked, among) if each.value is None else _of_cells(asked, axis, among))
    return {j: tuple(readings) for j, readings in found.items()}


def _of_cells(each: Collected, axis: int, among: int) -> LinearReading:
    """The shares of the cells along one axis of a grid."""
    grid = each.grid
    reading: Any = each.mechanism.reading  # of frequencies, as it has a value
    assert each.value is not None
    cells = np.arange(grid.shape[axis])
    rows = (grid.partition(axis) == cells[:, None]).astype(np.float64)
    value = each.value.sum(axis=tuple(other for other in range(each.value.ndim) if other != axis))
    sums, unasked = reading.along(grid.shape, (axis,)), 1 - each.n / among
    if sums is not None:
        covariance = sums.covariance(onto_simplex(value), unasked).dense()
    elif grid.shape[axis] <= _MOST_CELLS:
        summed = (np.indices(grid.shape)[axis].ravel() == cells[:, None]).astype(np.float64)
        covariance = reading.covariance_of_sums(summed, onto_simplex(each.value.ravel()), unasked)
    else:
        covariance = None
    if covariance is None:
        variance = each.variance_of(value, grid.size // grid.shape[axis])
        return LinearReading.one_by_one(rows, value, variance, each.n)
    return LinearReading(rows, value, covariance / each.n, each.n)


def _of_window(each: Collected, among: int) -> LinearReading:
    """All cells, if the outputs tell them apart; else the mean."""
    outputs = _of_outputs(each, among) if each.grid.size <= _MOST_CELLS else None
    return _of_mean(each, among) if outputs is None else outputs


def _of_mean(each: Collected, among: int) -> LinearReading:
    mechanism = each.mechanism
    assert each.middles is not None
    found = mechanism.reading.estimate(each.tally, mechanism.guarantee, "", among)
    places = 2 * each.middles - 1
    return LinearReading.one_by_one(places[None], np.array([found.value]), np.array([found.stderr**2]), each.n)


def _of_outputs(each: Collected, among: int) -> LinearReading | None:
    assert each.middles is not None
    window = each.mechanism.window  # type: ignore[attr-defined]
    heard = window_evidence(window, each.tally.counts, each.middles, each.middles, _MOST_OUTPUTS)
    seen = np.linalg.svd(heard.law, compute_uv=False)
    if len(seen) < each.grid.size or seen[-1] < _LEAST_SEEN * seen[0]:
        return None
    shares = maximum(heard, most=_STEPS).shares
    chance = heard.chance(shares)
    together = (heard.law * shares) @ heard.law.T
    drawn = (1 / each.n - 1 / among) * (together - np.outer(chance, chance))
    return LinearReading(heard.law, heard.counts / heard.n, (np.diag(chance) - together) / each.n + drawn, each.n)
