"""The contract: what every mechanism in the registry must keep, as functions that raise where it is broken.

`test_contract.py` runs them over the registry; `test_mutants.py` breaks the code and expects them to notice. Exact
things are compared exactly: the production sampler runs over every tape of short words, and its counts must be the
channel's fractions. A statistical check states its false-alarm probability.
"""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from math import floor

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, chi2

import dither
from contract.tapes import EveryTape, lanes_read
from dither.core.channel import PublicMixture, TwoLevel
from dither.core.domain import Interval
from dither.core.exact import exp_below, log_above
from dither.core.lattice import split
from dither.core.mechanism import Mechanism
from dither.mechanisms.frequency import Frequencies

MOST_TAPE_BITS = 18


def examples() -> list[Mechanism]:
    """Every registered mechanism with each of its example parameters."""
    return [cls(**example) for cls in dither.registry.values() for example in cls.examples]


def label(mechanism: Mechanism) -> str:
    """A name for the test report."""
    return repr(mechanism).replace(" ", "")


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
        assert mechanism.delta - promise.delta <= mechanism.delta * 1e-9


def check_channel(mechanism: Mechanism) -> None:
    """Rows sum to one; ratio, divergence and blanket are those of the written-out matrix."""
    channel = mechanism.channel()
    if channel.shape[1] > 1 << 16:
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
        assert enumerated == channel.divergence(ratio) or isinstance(channel, PublicMixture)
    assert channel.blanket().mass <= sum(min(column) for column in matrix.T)
    assert channel.profile(channel.epsilon) == 0


def check_sampler(mechanism: Mechanism) -> None:
    """The production sampler, over every tape of short words, gives exactly the channel's probabilities."""
    small, bits = with_short_weights(mechanism)
    for value in sampled_inputs(small):
        tape = EveryTape(bits, _lanes(small, bits))
        reports = small.sample(np.full(tape.rows, value), tape)
        rows, inverse = tape.odds()
        found: dict[bytes, Fraction] = {}
        for (report, odds), count in Counter(zip(as_bytes(reports[rows]), inverse.tolist(), strict=True)).items():
            found[report] = found.get(report, Fraction(0)) + Fraction(count, odds)
        assert found == _law(small, value, tape)


def sampled_inputs(mechanism: Mechanism) -> NDArray:
    """All inputs of the channel if they are few, else some; and for numbers also one between lattice points."""
    inputs = mechanism.inputs()
    if isinstance(mechanism.reading.domain, Interval):
        return np.append(inputs[np.unique([0, len(inputs) // 2, -1])], 0.3)
    return inputs


def as_bytes(reports: NDArray) -> list[bytes]:
    """Each report as bytes."""
    return np.ascontiguousarray(reports).view(f"V{reports.dtype.itemsize}").tolist()


def _lanes(mechanism: Mechanism, bits: int) -> dict[int, int]:
    return lanes_read(lambda rows, tape: mechanism.sample(np.zeros(rows, dtype=np.int64), tape), bits)


def _law(mechanism: Mechanism, value: float, tape: EveryTape) -> dict[bytes, Fraction]:
    """Report, as bytes, to its probability given the value."""
    channel = mechanism.channel()
    if isinstance(channel, PublicMixture) and channel.tags == 1 << 64:  # on short words there are fewer hash seeds
        channel = replace(channel, tags=1 << tape.bits)
        outputs = np.empty(channel.shape[1], dtype=mechanism.dtype)
        outputs["seed"], outputs["value"] = np.divmod(np.arange(len(outputs)), channel.component.shape[1])
    else:
        outputs = mechanism.outputs()
    law = [Fraction(0)] * len(outputs)
    for x, share in rounding(mechanism, value, tape.bits).items():
        law = [before + share * added for before, added in zip(law, channel.row(x), strict=True)]
    return dict(zip(as_bytes(outputs), law, strict=True))


def rounding(mechanism: Mechanism, value: float, bits: int = 64) -> dict[int, Fraction]:
    """Which rows of the channel a value becomes, and how often."""
    if not isinstance(mechanism.reading.domain, Interval):
        return {int(value): Fraction(1)}
    lower, fraction, digits = split(np.array([value]), mechanism.channel().shape[0] - 1, bits)
    up = Fraction(int(fraction[0]), 1 << digits)
    return {row: share for row, share in ((int(lower[0]), 1 - up), (int(lower[0]) + 1, up)) if share}


def with_short_weights(mechanism: Mechanism) -> tuple[Mechanism, int]:
    """The same mechanism with weights for words so short that all tapes can be run, and that word length."""
    for bits in range(12, 1, -1):
        for limit in (1 << bits, 1 << 2 * bits):  # a total of two words makes the draw compare word by word
            short = _short_unary(mechanism) if type(mechanism).__name__ == "Unary" else _short_law(mechanism, limit)
            if short is not None and sum(_lanes(short, bits).values()) * bits <= MOST_TAPE_BITS:
                return short, bits
    raise AssertionError("no weights are short enough")


def _short_law(mechanism: Mechanism, limit: int) -> Mechanism | None:
    law, ratio = mechanism.channel(), exp_below(mechanism.epsilon)
    law = law.component if isinstance(law, PublicMixture) else law
    assert isinstance(law, TwoLevel)
    assert mechanism.weights is not None
    lattice = tuple(min(size, most) for size, most in zip(mechanism.weights[2:], (3, 5), strict=False))
    favoured, outputs = (lattice[0], sum(lattice)) if lattice else (law.favoured, law.outputs)
    for low in range(limit // outputs, 0, -1):
        high = floor(low * ratio)
        total = favoured * high + (outputs - favoured) * low
        if high > low and total <= limit and limit % total:  # some words must be rejected, or rejection goes untested
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
    if isinstance(mechanism.channel(), PublicMixture):
        return  # shared and private hash functions have their own exact tests
    outputs, inputs = mechanism.outputs(), mechanism.inputs()
    decoded = np.array([np.atleast_1d(mechanism.estimate(mechanism.tally(report)).value) for report in outputs])
    law = mechanism.channel().matrix().astype(float)
    truth = np.eye(len(inputs)) if isinstance(mechanism.reading, Frequencies) else inputs[:, None]
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
    counts = np.round(shares @ law * 10**13).astype(np.int64)
    estimate = mechanism.estimate(dither.Tally(mechanism.fingerprint, int(counts.sum()), counts))
    if counts.size != decoded.shape[0] or mechanism.tally(outputs[:1]).counts.size != counts.size:
        return  # the tally is not a histogram of reports: `moments` are all there is to compare
    np.testing.assert_allclose(np.atleast_1d(estimate.value), shares @ truth, atol=1e-8)
    stated, true = np.atleast_1d(estimate.stderr) ** 2 * estimate.n, shares @ variance
    signs_only = (
        len(outputs) == 2 and len(truth[0]) == 1
    )  # no magnitude: the error bar may be too wide, never too narrow
    assert (stated >= true * (1 - 1e-6)).all() if signs_only else np.allclose(stated, true, rtol=1e-6)


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
    if channel.shape[1] > 1 << 16:
        return
    outputs = {report: i for i, report in enumerate(as_bytes(mechanism.outputs()))}
    for x, value in enumerate(sampled_inputs(mechanism)):
        reports = mechanism.randomize(np.full(40_000, value), seed=1000 + x)
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
    if isinstance(mechanism.reading.domain, Interval):
        truth = np.atleast_1d(values.mean())
    else:
        truth = np.bincount(values, minlength=len(mechanism.inputs())) / len(values)
    reports = mechanism.randomize(np.tile(values, collections), seed=seed)
    covered = 0
    for i, part in enumerate(np.split(reports, collections)):
        low, high = (np.atleast_1d(end) for end in mechanism.estimate(mechanism.tally(part)).interval(0.95))
        v = i % len(truth)
        covered += bool(low[v] <= truth[v] <= high[v])
    assert binom.ppf(1e-8, collections, 0.94) <= covered <= binom.isf(1e-8, collections, 0.96)


def reports_are_distinct(mechanism: Mechanism) -> bool:
    """Whether `outputs` lists every report once."""
    listed = as_bytes(mechanism.outputs())
    return len(set(listed)) == len(listed) == mechanism.channel().shape[1]
