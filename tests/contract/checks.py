"""The contract: what every mechanism in the registry must keep, as functions that raise where it is broken.

`test_contract.py` runs them over the registry; `test_mutants.py` breaks the code and expects them to notice. Exact
things are compared exactly: the production sampler runs over every tape of short words, and its counts must be the
channel's fractions. A statistical check states its false-alarm probability.
"""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from math import floor, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, chi2

import dither
from contract.tapes import EveryTape, lanes_read
from dither.core.channel import TwoLevel
from dither.core.compose import Announced, PublicMixture
from dither.core.domain import Categories, Interval, Records
from dither.core.exact import exp_below, log_above
from dither.core.lattice import split
from dither.core.mechanism import Mechanism
from dither.core.shift import Shift
from dither.mechanisms.dimensions import Dimensions
from dither.mechanisms.frequency import Frequencies
from dither.mechanisms.personalised import RECORD, Choices, Pooled

MOST_TAPE_BITS = 18
LARGEST_LISTED = 1 << 16


def examples() -> list[Mechanism]:
    """Every registered mechanism with each of its example parameters."""
    return [cls(**example) for cls in dither.registry.values() for example in cls.examples]


def label(mechanism: Mechanism) -> str:
    """A name for the test report."""
    return repr(mechanism).replace(" ", "")


def messages(error: BaseException | None) -> str:
    """Everything that an error says, with what it was raised from."""
    said = ""
    while error is not None:
        said += str(error) + repr(error)
        error = error.__context__
    return said


def as_values(mechanism: Mechanism, column: Any) -> Any:
    """A column of values as the mechanism takes it: for records, the same value in every dimension."""
    domain = mechanism.reading.domain
    if isinstance(domain, Choices):
        if isinstance(column, np.ndarray) and column.dtype.kind in "iuf":
            rows = np.zeros(len(column), dtype=RECORD)
            rows["value"] = column
            return rows
        return {"value": column, "group": np.zeros(len(column), dtype=np.uint8)}
    if not isinstance(domain, Records):
        return column
    return (
        np.repeat(column[:, None], domain.d, axis=1)
        if isinstance(column, np.ndarray)
        else [[value] * domain.d for value in column]
    )


def many(value: Any, rows: int) -> NDArray:
    """The same value for every row."""
    return np.repeat(np.asarray(value)[None], rows, axis=0)


def composed(mechanism: Mechanism) -> bool:
    """Whether a report consists of several reports."""
    return isinstance(mechanism.reading, Dimensions)


def parts_of(mechanism: Mechanism) -> tuple[Mechanism, ...]:
    """The mechanisms that a mechanism is made of; empty if it stands for itself."""
    if isinstance(mechanism, dither.Histogram):
        return (mechanism.entry,)
    return tuple(getattr(mechanism.reading, "parts", ()))


def with_epsilon(mechanism: Mechanism, epsilon: float, **changes: Any) -> Mechanism:
    """The same mechanism with another budget, fitted again."""
    stored = {key: value for key, value in mechanism.to_dict().items() if key not in ("mechanism", "weights")}
    if isinstance(mechanism, dither.Personalised):
        scale = epsilon / mechanism.epsilon
        groups = [(group.name, max(group.epsilon * scale, 1e-9), group.low, group.high) for group in mechanism.groups]
        return dither.Personalised(mechanism.base, groups)
    return type(mechanism)(**{**stored, "epsilon": epsilon, **changes})


def check_certificate(mechanism: Mechanism) -> None:
    """At most what was declared and within 1e-9 of it; enumeration of all pairs agrees with the structure."""
    promise = dither.privacy.certify(mechanism)
    assert promise == mechanism.guarantee
    assert promise.epsilon <= mechanism.epsilon
    assert promise.delta <= mechanism.delta
    if mechanism.delta == 0:
        assert mechanism.epsilon - promise.epsilon <= 1e-9
    else:
        assert promise.epsilon == mechanism.epsilon
        tight = 1 / 1000 if parts_of(mechanism) else 1  # m reports at delta / m each keep less than delta
        assert promise.delta >= tight * mechanism.delta * (1 - 1e-9)


def check_channel(mechanism: Mechanism) -> None:
    """Rows sum to one; ratio, divergence and blanket are those of the written-out matrix."""
    channel = mechanism.channel()
    if parts_of(mechanism) and (max(channel.shape) > LARGEST_LISTED or isinstance(channel, Announced)):
        assert channel.ratio() == _product_of_ratios(mechanism)
        for part in parts_of(mechanism):
            check_channel(part)
        return
    if channel.shape[1] > LARGEST_LISTED:
        assert isinstance(channel, PublicMixture)
        channel = channel.component
    inputs = channel.shape[0]
    matrix = np.array([channel.row(x) for x in (range(inputs) if inputs <= 16 else (0, 1, inputs // 2, inputs - 1))])
    assert all(sum(row) == 1 for row in matrix)
    assert all(probability > 0 for row in matrix for probability in row)
    assert channel.ratio() == max(max(column) / min(column) for column in matrix.T)
    for ratio in (Fraction(1), exp_below(mechanism.epsilon), exp_below(mechanism.epsilon / 2)):
        enumerated = max(
            sum(max(Fraction(0), a - ratio * b) for a, b in zip(x, y, strict=True)) for x in matrix for y in matrix
        )
        assert enumerated <= channel.divergence(ratio)
        shared_hashes = isinstance(channel, PublicMixture) and not composed(mechanism)  # the worst of them is stated
        assert enumerated == channel.divergence(ratio) or shared_hashes or not channel.exact
    assert channel.blanket().mass <= sum(min(column) for column in matrix.T)
    assert channel.profile(channel.epsilon) == 0


def _product_of_ratios(mechanism: Mechanism) -> Fraction:
    dimensions = mechanism.reading
    ratios = [Fraction(part.channel().ratio()) for part in parts_of(mechanism)]
    if isinstance(mechanism, dither.Histogram):
        return ratios[0] ** 2  # two entries differ
    if isinstance(mechanism, dither.Personalised):
        return max(ratios)
    assert isinstance(dimensions, Dimensions)
    ratios = sorted(Fraction(dimensions.part(j).channel().ratio()) for j in range(dimensions.d))
    return prod(ratios[-dimensions.m :], start=Fraction(1))


def check_sampler(mechanism: Mechanism) -> bool:
    """The production sampler, over every tape of short words, gives exactly the channel's probabilities.

    False if there are too many tapes, which happens to reports of several reports only.
    """
    small, bits = with_short_weights(mechanism)
    if small is None:
        assert parts_of(mechanism)
        return False
    for value in sampled_inputs(small):
        tape = EveryTape(bits, _lanes(small, bits))
        reports = small.drawn(many(value, tape.rows), tape)
        rows, inverse = tape.odds()
        found: dict[bytes, Fraction] = {}
        for (report, odds), count in Counter(zip(as_bytes(reports[rows]), inverse.tolist(), strict=True)).items():
            found[report] = found.get(report, Fraction(0)) + Fraction(count, odds)
        assert found == _law(small, value, tape)
    return True


def sampled_inputs(mechanism: Mechanism) -> NDArray:
    """All inputs of the channel if they are few, else some; and for numbers also one between lattice points."""
    inputs, domain = mechanism.inputs(), mechanism.reading.domain
    if isinstance(domain, Interval):
        return np.append(inputs[np.unique([0, len(inputs) // 2, -1])], 0.3)
    if isinstance(domain, Choices):
        off = inputs[:1].copy()
        off["value"] = domain.groups[0].centre + 0.3 * domain.groups[0].half
        return np.concatenate([inputs[np.unique([0, len(inputs) // 3, -1])], off])
    if isinstance(domain, Records):
        between = [0.3 - 0.1 * j if isinstance(domain.of(j), Interval) else 1 for j in range(domain.d)]
        return np.vstack([inputs[np.unique([0, len(inputs) // 3, -1])], between])
    return inputs


def as_bytes(reports: NDArray) -> list[bytes]:
    """Each report as bytes."""
    return np.ascontiguousarray(reports).view(f"V{reports.dtype.itemsize}").tolist()


def _lanes(mechanism: Mechanism, bits: int) -> dict[Any, int]:
    inputs = mechanism.inputs()
    return lanes_read(lambda rows, tape: mechanism.drawn(inputs[np.arange(rows) % len(inputs)], tape), bits)


def _law(mechanism: Mechanism, value: Any, tape: EveryTape) -> dict[bytes, Fraction]:
    """Report, as bytes, to its probability given the value."""
    channel = mechanism.channel()
    if isinstance(mechanism, dither.Hybrid):
        return _law_of_branches(mechanism, value, tape.bits)
    if isinstance(channel, PublicMixture) and channel.tags == 1 << 64:  # on short words there are fewer hash seeds
        channel = replace(channel, tags=1 << tape.bits)
        outputs = np.empty(channel.shape[1], dtype=mechanism.dtype)
        outputs["seed"], outputs["value"] = np.divmod(np.arange(len(outputs)), channel.component.shape[1])
    else:
        outputs = mechanism.outputs()
    law = [Fraction(0)] * len(outputs)
    for x, share in rounding(mechanism, value, tape.bits).items():
        law = [before + share * added for before, added in zip(law, channel.row(x), strict=True)]
    return {report: odds for report, odds in zip(as_bytes(outputs), law, strict=True) if odds}


def _law_of_branches(mechanism: Any, value: float, bits: int) -> dict[bytes, Fraction]:
    """Each branch rounds to its own lattice."""
    law: list[Fraction] = []
    for odds, window in mechanism.branches:
        own = [Fraction(0)] * window.law.outputs
        for row, share in _rounded_number(value, window.steps, bits).items():
            own = [before + odds * share * added for before, added in zip(own, window.law.row(row), strict=True)]
        law += own
    return dict(zip(as_bytes(mechanism.outputs()), law, strict=True))


def rounding(mechanism: Mechanism, value: Any, bits: int = 64) -> dict[int, Fraction]:
    """Which rows of the channel a value becomes, and how often."""
    if isinstance(mechanism.reading, Dimensions):
        return _rounded_record(mechanism.reading, value, bits)
    if isinstance(mechanism.reading.domain, Records):
        return _rounded_corner(mechanism, value, bits)
    if isinstance(mechanism.reading, Pooled):
        return _rounded_choice(mechanism.reading, value, bits)
    if not isinstance(mechanism.reading.domain, Interval):
        return {int(value): Fraction(1)}
    return _rounded_number(value, mechanism.channel().shape[0] - 1, bits)


def _rounded_number(value: float, steps: int, bits: int) -> dict[int, Fraction]:
    lower, fraction, digits = split(np.array([value]), steps, bits)
    up = Fraction(int(fraction[0]), 1 << digits)
    return {row: share for row, share in ((int(lower[0]), 1 - up), (int(lower[0]) + 1, up)) if share}


def _rounded_choice(groups: Pooled, choice: Any, bits: int) -> dict[int, Fraction]:
    """The rows of all groups stand one after the other; a value is rounded on the scale of its region."""
    number = int(choice["group"])
    group, part = groups.groups[number], groups.parts[number]
    scaled = np.clip((choice["value"] - group.centre) / group.half, -1, 1)
    before = sum(part.channel().shape[0] for part in groups.parts[:number])
    return {before + row: share for row, share in rounding(part, scaled, bits).items()}


def _rounded_corner(mechanism: Mechanism, record: Any, bits: int) -> dict[int, Fraction]:
    """For a mechanism whose inputs are the corners of a cube: each number becomes a sign."""
    row = {tuple(corner): x for x, corner in enumerate(mechanism.inputs().tolist())}
    corners = {(): Fraction(1)}
    for value in record:
        steps = _rounded_number(value, 1, bits)
        corners = {(*corner, 2.0 * up - 1): a * b for corner, a in corners.items() for up, b in steps.items()}
    return {row[corner]: share for corner, share in corners.items()}


def _rounded_record(dimensions: Dimensions, record: Any, bits: int) -> dict[int, Fraction]:
    rows = {0: Fraction(1)}
    for j in range(dimensions.d):
        part = dimensions.part(j)
        digits = rounding(part, record[j], bits)
        size = part.channel().shape[0]
        rows = {row * size + digit: a * b for row, a in rows.items() for digit, b in digits.items()}
    return rows


def with_short_weights(mechanism: Mechanism) -> tuple[Mechanism | None, int]:
    """The same mechanism with weights for words so short that all tapes can be run, and that word length."""
    most = MOST_TAPE_BITS - 2 * bool(parts_of(mechanism))  # more lanes are slower to read
    # A total of two words makes the draw compare word by word; three are for laws with many outputs.
    choices = [(bits, words) for bits in range(12, 1, -1) for words in (1, 2)] + [(3, 3), (2, 3)]
    for bits, words in choices:
        short = _short(mechanism, 1 << words * bits)
        if short is not None and sum(_lanes(short, bits).values()) * bits <= most:
            return short, bits
    return None, 0


def _short(mechanism: Mechanism, limit: int) -> Mechanism | None:
    if isinstance(mechanism, dither.Gaussian) and mechanism.d > 1:
        return None
    if isinstance(mechanism, dither.Histogram):
        entry = _short(mechanism.entry, limit)
        return entry and replace(mechanism, weights=entry.weights, delta=0.0)
    if isinstance(mechanism, dither.Personalised):
        parts = [_short(part, limit) for part in mechanism.reading.parts]
        return replace(mechanism, weights=tuple(part.weights for part in parts if part)) if all(parts) else None
    if isinstance(mechanism, dither.Hybrid):
        return _short_hybrid(mechanism, limit)
    if isinstance(mechanism.reading, Dimensions):
        if any(type(part).__name__ == "Unary" for part in mechanism.reading.parts):
            return None
        parts = [_short(part, limit) for part in mechanism.reading.parts]
        weights = tuple(part.weights for part in parts if part is not None)
        if len(weights) < len(parts):
            return None
        return replace(mechanism, weights=weights, delta=0.0)  # type: ignore[type-var]
    return _short_unary(mechanism) if type(mechanism).__name__ == "Unary" else _short_law(mechanism, limit)


def _short_hybrid(mechanism: Any, limit: int) -> Mechanism | None:
    """A coin of three eighths, and laws that three bits can tell: a row has the words of both branches."""
    sign, share = ((5, 2), 3 << 29) if mechanism.weights[-1] else ((4, 3), 0)
    return replace(mechanism, weights=(*sign, 3, 2, 1, 2, share)) if limit == 8 else None


def _short_law(mechanism: Mechanism, limit: int) -> Mechanism | None:
    if isinstance(mechanism.channel(), Shift):
        table = Shift((9, 7, 4, 2, 1), steps=2, reach=2)
        return replace(mechanism, epsilon=log_above(table.ratio()), weights=(*table.weights, 2, 2, 1))  # type: ignore
    law, ratio = mechanism.channel(), exp_below(mechanism.epsilon)
    law = law.component if isinstance(law, PublicMixture) else law
    assert isinstance(law, TwoLevel)
    assert mechanism.weights is not None
    lattice = tuple(min(size, most) for size, most in zip(mechanism.weights[2:], (3, 5), strict=False))
    favoured, outputs = (lattice[0], sum(lattice)) if lattice else (law.favoured, law.outputs)
    for low in range(floor(limit / (favoured * ratio + outputs - favoured)) + 1, 0, -1):
        for high in (floor(low * ratio), floor(low * ratio) - 1):
            total = favoured * high + (outputs - favoured) * low
            if high > low and total <= limit and limit % total:  # some words are rejected, or that goes untested
                return replace(mechanism, weights=(high, low, *lattice))  # type: ignore[type-var]
    return None


def _short_unary(mechanism: Mechanism) -> Mechanism:
    """Coins in eighths; the budget is moved to the largest that these can keep below one and a half times the ratio."""

    def ratio(weights: tuple[int, ...]) -> Fraction:
        return Fraction(weights[0] * (8 - weights[2]), weights[2] * weights[1])

    most = exp_below(mechanism.epsilon) * Fraction(3, 2)
    choices = [(a, 8 - a, b, 8) for a in range(1, 8) for b in range(1, a, 2)]
    weights = max((choice for choice in choices if ratio(choice) <= most), key=ratio)
    return replace(mechanism, epsilon=float(log_above(ratio(weights))), delta=0.0, weights=weights)  # type: ignore


def check_estimator(mechanism: Mechanism) -> None:
    """By enumeration of all reports: unbiased, moments as `moments` says, and standard errors that follow from them."""
    if isinstance(mechanism.reading, Dimensions):
        check_records(mechanism)
        return
    if isinstance(mechanism, dither.LocalHash):
        return  # shared and private hash functions have their own exact tests
    if isinstance(mechanism.reading, Pooled):
        check_groups(mechanism)
        return
    if mechanism.channel().shape[1] > LARGEST_LISTED:
        assert isinstance(mechanism, dither.Histogram)
        return
    outputs, inputs = mechanism.outputs(), mechanism.inputs()
    decoded = np.array([np.atleast_1d(mechanism.estimate(mechanism.tally(report)).value) for report in outputs])
    law = mechanism.channel().matrix().astype(float)
    categorical = isinstance(mechanism.reading.domain, Categories)
    truth = np.eye(len(inputs)) if categorical else inputs.reshape(len(inputs), -1)
    np.testing.assert_allclose(law @ decoded, truth, atol=1e-9)
    centred = np.abs(decoded[None, :, :] - truth[:, None, :])
    moments = mechanism.moments(inputs)
    variance, third = (moment.reshape(len(inputs), -1) for moment in (moments.variance, moments.third))
    np.testing.assert_allclose(moments.bias, 0.0, atol=1e-9)
    np.testing.assert_allclose(np.einsum("xy,xyv->xv", law, centred**2), variance, rtol=1e-9)
    np.testing.assert_allclose(np.einsum("xy,xyv->xv", law, centred**3), third, rtol=1e-9)
    if isinstance(mechanism.reading, Frequencies):
        held = np.arange(1, len(inputs) + 1) / np.arange(1, len(inputs) + 1).sum()
        np.testing.assert_allclose(mechanism.reading.variance(held), held @ variance, rtol=1e-9)
    # At the expected counts of a population, estimate and standard error are what enumeration gives.
    shares = np.arange(1, len(inputs) + 1) / np.arange(1, len(inputs) + 1).sum()
    weights = np.round(shares @ law * 10**13).astype(np.int64)
    counts = weights
    if mechanism.tally(outputs[:1]).counts.size != counts.size:  # the tally is not a histogram of reports
        counts = np.sum([w * mechanism.tally(y).counts for w, y in zip(weights, outputs, strict=True)], axis=0)
    estimate = mechanism.estimate(dither.Tally(mechanism.fingerprint, int(weights.sum()), counts))
    np.testing.assert_allclose(np.atleast_1d(estimate.value), shares @ truth, atol=1e-8)
    stated, true = np.atleast_1d(estimate.stderr) ** 2 * estimate.n, shares @ variance
    # Two input points in a dimension carry no magnitude: the error bar may be too wide, never too narrow.
    signs_only = len(inputs) == 1 << len(truth[0])
    assert (stated >= true * (1 - 1e-6)).all() if signs_only else np.allclose(stated, true, rtol=1e-6)


def check_groups(mechanism: Mechanism) -> None:
    """Each group by enumeration of its reports: unbiased on the scale of its region, with the stated moments."""
    reading, inputs, outputs = mechanism.reading, mechanism.inputs(), mechanism.outputs()
    assert isinstance(reading, Pooled)
    for number, group in enumerate(reading.groups):
        own, law = inputs[inputs["group"] == number], reading.parts[number].channel().matrix().astype(float)
        about = outputs[outputs["group"] == number]
        estimates: list[Any] = [mechanism.estimate(mechanism.tally(report)) for report in about]
        scores = np.array([float(estimate[group.name].value) for estimate in estimates])
        assert all(e["all"].value == e["weighted"].value == s for e, s in zip(estimates, scores, strict=True))
        stated = mechanism.moments(own)
        np.testing.assert_allclose(law @ scores, own["value"] + stated.bias, atol=1e-9)
        centred = np.abs(scores[None] - own["value"][:, None])
        np.testing.assert_allclose((law * centred**2).sum(axis=1), stated.variance, rtol=1e-9)
        np.testing.assert_allclose((law * centred**3).sum(axis=1), stated.third, rtol=1e-9)


def check_records(mechanism: Mechanism) -> None:
    """Dimension by dimension, by enumeration of all reports about it: unbiased, with the stated moments.

    And at the expected counts of a population, the standard error covers the noise and which users were asked.
    """
    dimensions, channel = mechanism.reading, mechanism.channel()
    assert isinstance(dimensions, Dimensions)
    if max(channel.shape) > 1024:
        return
    outputs, inputs, law = mechanism.outputs(), mechanism.inputs(), channel.matrix()
    asked = Fraction(dimensions.m, dimensions.d)
    decoded = [mechanism.estimate(mechanism.tally(report)) for report in outputs]
    shares = np.arange(1, len(inputs) + 1) / np.arange(1, len(inputs) + 1).sum()
    counts = sum(
        np.rint(weight * 10**13).astype(np.int64) * mechanism.tally(report).counts
        for weight, report in zip(shares @ law.astype(float), outputs, strict=True)
    )
    population = mechanism.estimate(dither.Tally(mechanism.fingerprint, 10**13, np.asarray(counts)))
    for j in range(dimensions.d):
        part = dimensions.part(j)
        scores = np.array([np.atleast_1d(_dimension(estimate, j)) for estimate in decoded])
        about = ~np.isnan(scores[:, 0])
        given = law[:, about] / asked
        assert all(sum(row) == 1 for row in given)
        if isinstance(part.channel(), PublicMixture):
            continue  # shared hash functions: unbiased over cohorts, not for each report
        given, scores = given.astype(float), scores[about]
        truth = np.eye(len(part.inputs()))[inputs[:, j].astype(int)] if scores.shape[1] > 1 else inputs[:, [j]]
        np.testing.assert_allclose(given @ scores, truth, atol=1e-9)
        own = part.moments(inputs[:, j] if scores.shape[1] == 1 else inputs[:, j].astype(int))
        centred = np.abs(scores[None] - truth[:, None])
        variance = np.einsum("xy,xyv->xv", given, centred**2)
        np.testing.assert_allclose(variance, own.variance.reshape(variance.shape), rtol=1e-9)
        np.testing.assert_allclose(np.einsum("xy,xyv->xv", given, centred**3), own.third.reshape(variance.shape))
        if isinstance(dimensions, Dimensions) and dimensions.domain.numeric:
            np.testing.assert_allclose(mechanism.moments(inputs).variance[:, j], variance[:, 0], rtol=1e-9)
        spread = shares @ truth**2 - (shares @ truth) ** 2
        true = (shares @ variance + (1 - float(asked)) * spread) / float(asked)
        value, stderr = (np.atleast_1d(_dimension(population, j, name)) for name in ("value", "stderr"))
        np.testing.assert_allclose(value, shares @ truth, atol=1e-8)
        stated = stderr**2 * 10**13
        assert (stated >= true * (1 - 1e-6)).all()
        assert np.allclose(stated, true, rtol=1e-6) or type(part).__name__ == "Duchi"


def _dimension(estimate: Any, j: int, name: str = "value") -> Any:
    return getattr(estimate, name)[j] if isinstance(estimate, dither.Estimate) else getattr(estimate[j], name)


def check_merging(mechanism: Mechanism, seed: int = 5) -> None:
    """Any split of the reports merges to the same bytes, and reports do not depend on how rows were cut."""
    inputs = mechanism.inputs()
    values = inputs[np.arange(3001) % len(inputs)]
    reports = mechanism.randomize(values, seed=seed)
    whole = mechanism.tally(reports)
    generator = np.random.default_rng(seed)
    for _ in range(5):
        order = generator.permutation(len(reports))
        parts = np.split(order, np.sort(generator.integers(0, len(order), 4)))
        assert sum(mechanism.tally(reports[part]) for part in parts).to_bytes() == whole.to_bytes()
    assert dither.Tally.from_bytes(whole.to_bytes()) == whole
    assert (mechanism.randomize(values[:1000], seed=seed) == reports[:1000]).all()


def check_plumbing(mechanism: Mechanism, alarm: float = 1e-8) -> None:
    """Seeded production reports follow the channel: chi-square for each input, false alarm `alarm` each."""
    channel = mechanism.channel()
    if max(channel.shape) > LARGEST_LISTED:
        return
    outputs = {report: i for i, report in enumerate(as_bytes(mechanism.outputs()))}
    for x, value in enumerate(sampled_inputs(mechanism)):
        reports = mechanism.randomize(many(value, 40_000), seed=1000 + x)
        rows = rounding(mechanism, value).items()
        mixed = [float(share) * np.array(channel.row(row), dtype=float) for row, share in rows]
        expected = np.sum(mixed, axis=0) * len(reports)
        found = Counter(outputs[report] for report in as_bytes(np.asarray(reports)))
        counts = np.array([found[i] for i in range(len(expected))])
        keep = expected >= 5
        pooled = np.append(expected[keep], expected[~keep].sum()), np.append(counts[keep], counts[~keep].sum())
        statistic = sum((c - e) ** 2 / e for e, c in zip(*pooled, strict=True) if e > 0)
        cells = sum(e > 0 for e in pooled[0])
        assert statistic < chi2.isf(alarm, cells - 1)


def check_coverage(mechanism: Mechanism, values: NDArray, *, collections: int, seed: int) -> None:
    """95% intervals cover 94% to 96% (the normal approximation is allowed a point), false alarm 2e-8.

    One number of every simulated collection is looked at, so that the collections are independent.
    """
    truth = _truth(mechanism, values)
    reports = mechanism.randomize(np.tile(values, (collections,) + (1,) * (values.ndim - 1)), seed=seed)
    covered = 0
    for i, part in enumerate(np.split(reports, collections)):
        low, high = _ends(mechanism.estimate(mechanism.tally(part)))
        v = i % len(truth)
        covered += bool(low[v] <= truth[v] <= high[v])
    assert binom.ppf(1e-8, collections, 0.94) <= covered <= binom.isf(1e-8, collections, 0.96)


def _truth(mechanism: Mechanism, values: NDArray) -> NDArray:
    if isinstance(mechanism.reading, Dimensions):
        parts = [mechanism.reading.part(j) for j in range(mechanism.reading.d)]
        columns = [values[:, j] for j in range(len(parts))]
        own = [
            column if isinstance(part.reading.domain, Interval) else column.astype(int)
            for part, column in zip(parts, columns, strict=True)
        ]
        return np.concatenate([_truth(part, column) for part, column in zip(parts, own, strict=True)])
    if isinstance(mechanism.reading, Pooled):
        return np.atleast_1d(values["value"].mean())
    if isinstance(mechanism.reading.domain, Interval | Records):
        return np.atleast_1d(values.mean(axis=0))
    return np.bincount(values, minlength=len(mechanism.inputs())) / len(values)


def _ends(estimate: Any) -> tuple[NDArray, NDArray]:
    """The ends of all intervals, one after the other."""
    if isinstance(estimate, dither.Estimate):
        parts = [estimate]
    else:
        parts = [estimate["all"]] if "all" in estimate else list(estimate.values())
    low, high = zip(*(part.interval(0.95) for part in parts), strict=True)
    return tuple(np.concatenate([np.atleast_1d(end) for end in ends]) for ends in (low, high))  # type: ignore


def reports_are_distinct(mechanism: Mechanism) -> bool:
    """Whether `outputs` lists every report once."""
    listed = as_bytes(mechanism.outputs())
    return len(set(listed)) == len(listed) == mechanism.channel().shape[1]
