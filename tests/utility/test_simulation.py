"""Prediction against simulation: what `utility.deviation` says before a collection, and what 1,000 collections do.

For every example of every mechanism that has moments (`registered`), 5,000 users hold a small fixed population: a few
rows, of which each collection has exactly the same counts, so the truth does not vary and only the reports do. Of up to
three items (the first, a middle and the last one) the deviation from the truth is standardised with the predicted
bias and variance, z = (estimate - truth - bias) / stderr, and two things are asked of the 1,000 values z:

- **Spread.** The sum of z^2, the empirical variance about the predicted mean, lies between two quantiles of
  chi-square with 1,000 degrees of freedom. z is only nearly normal: an average of 5,000 reports has an excess
  kurtosis of 1/5,000 of one report's; where that is below 100, the quantiles move by less than 0.6%. The
  same is asked of the first item of all examples of a mechanism together, which have independent noise: with three
  examples 17% of variance show, against 30% in one.
- **Shape.** The largest distance between the empirical distribution function and the normal one is below
  `normal_error` plus the sampling error sqrt(log(2 / alpha) / (2 * 1,000)) of an empirical distribution function
  (Dvoretzky, Kiefer and Wolfowitz, with Massart's constant; it holds for lattices too). This one is a proof, except
  where m of d dimensions are reported: their number of reports is random, and predicted by its mean.

**False alarms.** An example is asked at most 2 readings * 2 sets of items * 3 items * 2 questions = 24 times, and once
more in the sum. For up to `MOST_CHECKS` = 5,000 questions each has alpha = 1e-6 / 5,000 = 2e-10, and the file has at
most 1e-6. Quantiles are then 6.4 standard deviations out: z^2 averages to between 0.74 and 1.31. Fine power is not
sought here; the contract suite has it, by enumeration. Seeds are fixed, and no example has fewer collections.

The variance that an estimate states must be the predicted one as well. It comes from the reports, so its mean over the
collections is taken, whose noise is below 0.7%, and compared to 3%. Signs carry no magnitude: there the variance of the
users' values may be added to it (see `mechanisms.mean`).

**Shared hash functions** are a set of their own: those of a mechanism with cohorts are fixed, and a prediction as if
they were drawn anew for each user would be up to three times too small for a few cohorts.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2, norm

import dither
from dither.core.ball_domain import Ball
from dither.core.domains import Categories, Records, UnitInterval
from dither.core.mechanism import Mechanism, Reading
from dither.core.sparse_domain import Sparse
from dither.mechanisms.cohorts import CohortFrequencies
from dither.mechanisms.keycohorts import CohortKeyValues
from dither.mechanisms.multi_attribute import MultiAttribute
from dither.mechanisms.personalised import RECORD, Choices, Group, Pooled
from dither.utility import Deviation, deviation
from marks import one_in
from utility.registered import NAMES

COLLECTIONS, USERS = 1000, 5_000
AT_ONCE = 100  # collections in one call: a table of 20 dimensions is then 160 MB
MOST_ITEMS = 3
MOST_CHECKS = 5000
ALPHA = 1e-6 / MOST_CHECKS
PLACES = np.array([-0.9, 0.75, -0.25, 0.4])  # in a domain or region from -1 to 1, the fewest users first

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Collected:
    """Some items of one example: what was predicted, and what each collection (rows) gave."""

    label: str
    shared: bool  # hash functions
    predicted: Deviation
    truth: Numbers
    spread: Numbers  # the variance of the users' own values, if these are numbers
    value: Numbers
    stderr: Numbers

    @property
    def standardised(self) -> Numbers:
        """Deviations that should be standard normal."""
        return (self.value - self.truth - self.predicted.bias) / self.predicted.stderr


Examples = Sequence[Sequence[Collected]]


# Users ---------------------------------------------------------------------------------------------------------------


def rows_of(domain: Any) -> NDArray:
    """A few rows that differ; the dimensions of a record go through them in different orders."""
    if isinstance(domain, Choices):
        pairs = [
            (group.centre + group.half * place, number)
            for number, group in enumerate(domain.groups)
            for place in PLACES
        ]
        return np.array(pairs, dtype=RECORD)
    if isinstance(domain, Sparse):  # from one key to s, so that dummies occur
        return domain.check(
            [
                {(number + slot) % domain.d: PLACES[(number + slot) % 4] for slot in range(1 + number % domain.s)}
                for number in range(len(PLACES))
            ]
        )
    if isinstance(domain, Records):
        return np.column_stack([np.roll(rows_of(domain.of(j)), j) for j in range(domain.d)])
    if isinstance(domain, Categories):
        return np.array([0, 1, domain.k // 2, domain.k - 1])
    return PLACES if isinstance(domain, UnitInterval) else domain.points(len(PLACES))


def counts_of(rows: int) -> NDArray[np.int64]:
    """Users of each row: growing like 1, 2, 3, ..., and exactly `USERS` together."""
    edges = np.concatenate([[0], np.cumsum(np.arange(1, rows + 1))])
    return np.diff(np.rint(USERS * edges / edges[-1]).astype(np.int64))


def truth_of(reading: Any, rows: NDArray) -> Numbers:
    """The truth about each row: of keys the statistic that predictions are about."""
    return reading.truth(rows) if isinstance(reading.domain, Sparse) else asked_of(reading.domain, rows)


def asked_of(domain: Any, rows: NDArray) -> Numbers:
    """The truth about each row: a column for each item, dimension by dimension."""
    if isinstance(domain, Records):
        return np.concatenate([asked_of(domain.of(j), rows[:, j]) for j in range(domain.d)], axis=1)
    if isinstance(domain, Categories):
        return (rows[:, None] == np.arange(domain.k)).astype(np.float64)
    if isinstance(domain, Ball):
        return rows
    return np.asarray(rows["value"] if rows.dtype.names else rows, dtype=np.float64)[:, None]


def numbers_of(domain: Any) -> NDArray[np.bool_]:
    """Which items are means of numbers, not frequencies of categories."""
    if isinstance(domain, Records):
        return np.concatenate([numbers_of(domain.of(j)) for j in range(domain.d)])
    if isinstance(domain, Sparse | Ball):
        return np.ones(domain.d, dtype=bool)
    return np.zeros(domain.k, dtype=bool) if isinstance(domain, Categories) else np.ones(1, dtype=bool)


def shared_of(reading: Any) -> NDArray[np.bool_]:
    """Which items are read from hash functions that users share."""
    if isinstance(reading, MultiAttribute):
        return np.concatenate([shared_of(reading.part(j).reading) for j in range(reading.d)])
    return np.full(numbers_of(reading.domain).shape, isinstance(reading, CohortFrequencies))


def some_of(items: NDArray[np.intp]) -> NDArray[np.intp]:
    """The first, a middle and the last of them."""
    return items[np.unique(np.linspace(0, len(items) - 1, MOST_ITEMS).astype(int))] if len(items) else items


# Collections ---------------------------------------------------------------------------------------------------------


def readings_of(mechanism: Mechanism) -> dict[str, Reading]:
    """The ways to read the same reports: where there is a naive one, it has a bias to predict."""
    found = {"calibrated": mechanism.reading}
    if mechanism.naive is not None:
        found["naive"] = mechanism.naive
    return found


def flat(estimate: Any, name: str) -> Numbers:
    """All items of an estimate in the order of a deviation; of pooled groups, the mean of all users; of keys, too."""
    if isinstance(estimate, dither.Estimate):
        return np.ravel(getattr(estimate, name))
    alone = next((name for name in ("all", "mean", "presence") if name in estimate), None)
    parts = list(estimate.values()) if alone is None else [estimate[alone]]
    return np.concatenate([np.ravel(getattr(part, name)) for part in parts])


@cache
def collected(mechanism: Mechanism) -> list[Collected]:
    """A prediction and its collections, for each reading and set of items."""
    domain = mechanism.reading.domain
    rows = rows_of(domain)
    counts = counts_of(len(rows))
    weights = counts / USERS
    asked = truth_of(mechanism.reading, rows)
    truth = weights @ asked
    spread = np.where(numbers_of(domain), weights @ (asked - truth) ** 2, 0.0)
    shared = shared_of(mechanism.reading)
    readings = readings_of(mechanism)
    found = {kind: np.empty((COLLECTIONS, 2, len(truth))) for kind in readings}
    many = np.concatenate([np.repeat(rows, counts, axis=0)] * AT_ONCE)
    for first in range(0, COLLECTIONS, AT_ONCE):
        reports = mechanism.randomize(many, seed=first)
        for number in range(AT_ONCE):
            tally = mechanism.tally(reports[number * USERS : (number + 1) * USERS])
            for kind, reading in readings.items():
                estimate = mechanism.estimate(tally, reading)
                found[kind][first + number] = flat(estimate, "value"), flat(estimate, "stderr")
    made = []
    for kind, results in found.items():
        predicted = deviation(mechanism, rows, weights, reports=USERS, estimator=kind)
        bias, variance = np.ravel(predicted.bias), np.ravel(predicted.variance)
        assert bias.shape == truth.shape, "a new kind of question: say in `asked_of` what its items are"
        for among in (False, True):
            items = some_of(np.flatnonzero(shared == among))
            if len(items):
                chosen = replace(predicted, bias=bias[items], variance=variance[items])
                value, stderr = results[:, 0, items], results[:, 1, items]
                label = f"{mechanism}, {kind}"
                made.append(Collected(label, among, chosen, truth[items], spread[items], value, stderr))
    return made


def collections_of(name: str) -> list[list[Collected]]:
    """For each example of a mechanism, its readings, the calibrated one first."""
    return [collected(mechanism) for mechanism in examples_of(name)]


def examples_of(name: str) -> list[Mechanism]:
    """A mechanism with each of its example parameters."""
    cls = dither.registry[name]
    # Ten million reports of many directions take minutes: the smallest codebook stands for all.
    made = [cls(**example) for example in (cls.examples[:1] if name == "UnitVector" else cls.examples)]
    # What shared functions do to keys is not predicted, but stated: mechanisms/test_keycohorts.py.
    return [mechanism for mechanism in made if not isinstance(mechanism.reading, CohortKeyValues)]


def with_hash_functions(examples: Examples, shared: bool) -> list[list[Collected]]:
    """Only items whose hash functions are shared, or only the others."""
    chosen = [[found for found in readings if found.shared == shared] for readings in examples]
    return [readings for readings in chosen if readings]


# Checks --------------------------------------------------------------------------------------------------------------


def check(examples: Examples) -> None:
    """All of one mechanism: each item's spread and shape, and the spread of the examples together."""
    for found in (found for readings in examples for found in readings):
        for item, z in enumerate(found.standardised.T):
            check_spread(z, f"{found.label}, item {item}")
            check_shape(z, found.predicted.normal_error, f"{found.label}, item {item}")
    together = np.concatenate([readings[0].standardised[:, 0] for readings in examples])
    check_spread(together, f"all examples like {examples[0][0].label}")


def check_spread(z: Numbers, label: str) -> None:
    """The variance about the predicted mean is the predicted one, as far as so many collections can tell."""
    total = float(z @ z)
    low, high = chi2.ppf(ALPHA / 2, z.size), chi2.isf(ALPHA / 2, z.size)
    assert low <= total <= high, f"{label}: variance is {total / z.size:.3f} of the predicted one"


def check_shape(z: Numbers, normal_error: float, label: str) -> None:
    """The distribution is the predicted normal one, as far as it was promised and so many collections can tell."""
    reach = np.sort(norm.cdf(z))
    steps = np.arange(z.size + 1) / z.size
    distance = float(max((steps[1:] - reach).max(), (reach - steps[:-1]).max()))
    sampling = math.sqrt(math.log(2 / ALPHA) / (2 * z.size))
    assert distance <= normal_error + sampling, f"{label}: {distance:.3f} from normal, promised {normal_error:.3f}"


def check_stderr(found: Collected) -> None:
    """Estimates state the predicted variance, or where they cannot know it, more by the spread of the values."""
    stated, predicted = np.mean(found.stderr**2, axis=0), found.predicted.variance
    assert (stated >= 0.97 * predicted).all(), found.label
    assert (stated <= 1.03 * (predicted + found.spread / USERS)).all(), found.label


# Tests ---------------------------------------------------------------------------------------------------------------


def test_the_file_asks_no_more_than_it_states():
    examples = sum(len(dither.registry[name].examples) for name in NAMES)
    assert examples * (2 * 2 * MOST_ITEMS * 2 + 1) <= MOST_CHECKS


def test_every_collection_has_the_same_users():
    for rows in (1, 4, 12, 97):
        counts = counts_of(rows)
        assert (counts.sum(), counts.min() > 0, len(counts)) == (USERS, True, rows)


SKETCHES = ["CountMeanSketch", "HadamardSketch"]  # which always share hash functions
OTHERS = [name for name in NAMES if name not in SKETCHES]


@pytest.mark.parametrize("name", one_in(5, OTHERS))
def test_collections_of_the_first_example_deviate_as_predicted(name):
    check_examples([collected(examples_of(name)[0])])


@pytest.mark.wide
@pytest.mark.parametrize("name", OTHERS)
def test_collections_deviate_as_predicted(name):
    check_examples(collections_of(name))


def check_examples(examples: Examples) -> None:
    """Deviations and stated errors, of items that are read from hash functions of one's own."""
    examples = with_hash_functions(examples, shared=False)
    assert examples
    check(examples)
    for readings in examples:
        for found in readings:
            check_stderr(found)


SHARING = ["LocalHash", "Sampled", "LHash", *SKETCHES]


def test_no_other_mechanism_is_left_out():
    found = {name for name in NAMES if any(shares(mechanism) for mechanism in examples_of(name))}
    assert found == set(SHARING)


def shares(mechanism: Mechanism) -> bool:
    """Whether some items are read from shared hash functions."""
    return bool(shared_of(mechanism.reading).any())


@pytest.mark.wide
@pytest.mark.parametrize("name", SHARING)
def test_shared_hash_functions_deviate_as_predicted(name):
    sharing = [collected(mechanism) for mechanism in examples_of(name) if shares(mechanism)]
    examples = with_hash_functions(sharing, shared=True)
    assert examples
    check(examples)


def test_a_naive_reading_is_predicted_with_its_bias():
    # So that the registry does not only hold predictions of no bias.
    naive = [found for readings in collections_of("SquareWave") for found in readings if "naive" in found.label]
    assert len(naive) == len(dither.SquareWave.examples)
    assert all(abs(found.predicted.bias[0]) > 7 * found.predicted.stderr[0] for found in naive)


# Personalised (001 Theorem 3) ----------------------------------------------------------------------------------------

GROUPS = (Group("careful", 0.3), Group("half", 1.0, -1.0, 0.25), Group("generous", 3.0))


@pytest.mark.parametrize("base", ["Duchi", "Piecewise", "SquareWave", "Laplace"])
def test_pooled_groups_follow_the_theorem(base):
    mechanism = dither.Personalised(base, {group.name: (group.epsilon, group.low, group.high) for group in GROUPS})
    parts = [dither.registry[base](epsilon=group.epsilon) for group in GROUPS]  # type: ignore[call-arg]
    assert_theorem(mechanism, [part.reading for part in parts])


def test_pooled_groups_with_a_bias_follow_the_theorem():
    # Calibrated parts have no bias to pool, naive ones do: the same reading over naive parts.
    parts = [dither.SquareWave(group.epsilon).naive for group in GROUPS]
    pooled = dither.Personalised("SquareWave", [tuple(group) for group in GROUPS])
    vars(pooled)["reading"] = Pooled(GROUPS, tuple(parts))  # type: ignore[arg-type]
    assert abs(float(assert_theorem(pooled, parts).bias)) > 0.01


def assert_theorem(mechanism: Any, parts: Sequence[Reading]) -> Deviation:
    """Bias sum of r_z b_z / r and variance sum of r_z v_z / r^2 over groups z, from the moments of each group alone."""
    rows = rows_of(Choices(GROUPS))
    counts = counts_of(len(rows))
    found = deviation(mechanism, rows, counts / USERS, reports=USERS)
    bias = variance = 0.0
    for number, (group, part) in enumerate(zip(GROUPS, parts, strict=True)):
        held = counts[rows["group"] == number]
        reports = held.sum()
        moments = part.moments(PLACES)  # on the scale of the region
        bias += reports * group.half * float(held @ moments.bias / reports) / USERS
        variance += reports * group.half**2 * float(held @ moments.variance / reports) / USERS**2
    assert float(found.bias) == pytest.approx(bias, rel=1e-9, abs=1e-12)
    assert float(found.variance) == pytest.approx(variance, rel=1e-9)
    return found


# Mutants: predictions that are wrong, and must not pass --------------------------------------------------------------


def with_prediction(change: Callable[[Deviation], Deviation]) -> Callable[[Collected], Collected]:
    """The same collections, measured with another prediction."""
    return lambda found: replace(found, predicted=change(found.predicted))


def in_two_places(found: Collected) -> Collected:
    """Collections with exactly the predicted mean and variance that are nowhere near normal."""
    signs = np.where(np.arange(COLLECTIONS) % 2, 1.0, -1.0)[:, None]
    return replace(found, value=found.truth + found.predicted.bias + signs * found.predicted.stderr)


MUTANTS = {
    "variance 30% too large": with_prediction(lambda told: replace(told, variance=told.variance * 1.3)),
    "variance 30% too small": with_prediction(lambda told: replace(told, variance=told.variance * 0.7)),
    "variance of one report fewer in three": with_prediction(lambda told: replace(told, variance=told.variance * 1.5)),
    "a standard error of bias": with_prediction(lambda told: replace(told, bias=told.bias + told.stderr)),
    "half a standard error of bias": with_prediction(lambda told: replace(told, bias=told.bias - told.stderr / 2)),
    "not normal": in_two_places,
    "truth of other users": lambda found: replace(found, truth=found.truth + 0.1),
}


@pytest.mark.wide
@pytest.mark.parametrize("name", ["GRR", "Piecewise", "Gaussian"])
def test_right_predictions_pass(name):
    check(collections_of(name))


@pytest.mark.parametrize("mutant", list(MUTANTS))
@pytest.mark.parametrize("name", ["GRR", "Piecewise", "Gaussian"])
def test_wrong_predictions_do_not_pass(name, mutant):
    changed = [[MUTANTS[mutant](found) for found in readings] for readings in collections_of(name)]
    with pytest.raises(AssertionError):
        check(changed)


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_wrong_standard_error_does_not_pass(factor):
    for readings in collections_of("GRR"):
        with pytest.raises(AssertionError):
            check_stderr(replace(readings[0], stderr=factor * readings[0].stderr))
