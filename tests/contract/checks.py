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
from dither.core.channel import PublicMixture
from dither.core.exact import exp_below, log_above
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
    matrix = channel.matrix()
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
    for x in range(small.channel().shape[0]):
        tape = EveryTape(bits, _lanes(small, bits))
        reports = small.sample(np.full(tape.rows, x), tape)
        rows, inverse = tape.odds()
        found: dict[bytes, Fraction] = {}
        for (report, odds), count in Counter(zip(as_bytes(reports[rows]), inverse.tolist(), strict=True)).items():
            found[report] = found.get(report, Fraction(0)) + Fraction(count, odds)
        assert found == _law(small, x, tape)


def as_bytes(reports: NDArray) -> list[bytes]:
    """Each report as bytes."""
    return np.ascontiguousarray(reports).view(f"V{reports.dtype.itemsize}").tolist()


def _lanes(mechanism: Mechanism, bits: int) -> dict[int, int]:
    return lanes_read(lambda rows, tape: mechanism.sample(np.zeros(rows, dtype=np.int64), tape), bits)


def _law(mechanism: Mechanism, x: int, tape: EveryTape) -> dict[bytes, Fraction]:
    """Report, as bytes, to its probability given x."""
    channel = mechanism.channel()
    if isinstance(channel, PublicMixture) and channel.tags == 1 << 64:  # on short words there are fewer hash seeds
        channel = replace(channel, tags=1 << tape.bits)
        outputs = np.empty(channel.shape[1], dtype=mechanism.dtype)
        outputs["seed"], outputs["value"] = np.divmod(np.arange(len(outputs)), channel.component.shape[1])
    else:
        outputs = mechanism.outputs()
    return dict(zip(as_bytes(outputs), channel.row(x), strict=True))


def with_short_weights(mechanism: Mechanism) -> tuple[Mechanism, int]:
    """The same mechanism with weights for words so short that all tapes can be run, and that word length."""
    for bits in range(12, 1, -1):
        for limit in (1 << bits, 1 << 2 * bits):  # a total of two words makes the draw compare word by word
            short = _short_unary(mechanism) if type(mechanism).__name__ == "Unary" else _short_law(mechanism, limit)
            if short is not None and sum(_lanes(short, bits).values()) * bits <= MOST_TAPE_BITS:
                return short, bits
    raise AssertionError("no weights are short enough")


def _short_law(mechanism: Mechanism, limit: int) -> Mechanism | None:
    law, ratio = mechanism.law, exp_below(mechanism.epsilon)  # type: ignore[attr-defined]
    for low in range(limit // law.outputs, 0, -1):
        high = floor(low * ratio)
        total = law.favoured * high + (law.outputs - law.favoured) * low
        if high > low and total <= limit and limit % total:  # some words must be rejected, or rejection goes untested
            return replace(mechanism, weights=(high, low))  # type: ignore[type-var]
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
    """By enumeration of all reports: unbiased, and variance and third moment as `moments` says."""
    if not isinstance(mechanism.reading, Frequencies) or mechanism.channel().shape[1] > 1 << 16:
        return  # shared and private hash functions have their own exact tests
    outputs = mechanism.outputs()
    decoded = np.array([mechanism.estimate(mechanism.tally(outputs[[i]])).value for i in range(len(outputs))])
    law = mechanism.channel().matrix().astype(float)
    truth = np.eye(law.shape[0])
    np.testing.assert_allclose(law @ decoded, truth, atol=1e-9)
    centred = np.abs(decoded[None, :, :] - truth[:, None, :])
    moments = mechanism.moments(np.arange(law.shape[0]))
    np.testing.assert_allclose(moments.bias, 0.0, atol=1e-9)
    np.testing.assert_allclose(np.einsum("xy,xyv->xv", law, centred**2), moments.variance, rtol=1e-9)
    np.testing.assert_allclose(np.einsum("xy,xyv->xv", law, centred**3), moments.third, rtol=1e-9)
    # The standard error at the expected counts is the standard deviation that enumeration gives.
    shares = np.arange(1, law.shape[0] + 1) / np.arange(1, law.shape[0] + 1).sum()
    np.testing.assert_allclose(mechanism.reading.variance(shares), shares @ moments.variance, rtol=1e-9)


def check_merging(mechanism: Mechanism, seed: int = 5) -> None:
    """Any split of the reports merges to the same bytes, and reports do not depend on how rows were cut."""
    inputs = mechanism.channel().shape[0]
    values = np.arange(3001) % inputs
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
    for x in range(channel.shape[0]):
        reports = mechanism.randomize(np.full(40_000, x), seed=1000 + x)
        found = Counter(outputs[report] for report in as_bytes(np.asarray(reports)))
        expected = np.array([float(p) for p in channel.row(x)]) * len(reports)
        counts = np.array([found[i] for i in range(len(expected))])
        keep = expected >= 5
        pooled = np.append(expected[keep], expected[~keep].sum()), np.append(counts[keep], counts[~keep].sum())
        statistic = sum((c - e) ** 2 / e for e, c in zip(*pooled, strict=True) if e > 0)
        cells = sum(e > 0 for e in pooled[0])
        assert statistic < chi2.isf(alarm, cells - 1)


def check_coverage(mechanism: Mechanism, frequencies: NDArray, *, collections: int, users: int, seed: int) -> None:
    """95% intervals cover 94% to 96% (the normal approximation is allowed a point), false alarm 2e-8.

    One category of every simulated collection is looked at, so that the collections are independent.
    """
    values = np.repeat(np.arange(len(frequencies)), np.round(frequencies * users).astype(int))[:users]
    truth = np.bincount(values, minlength=len(frequencies)) / len(values)
    reports = mechanism.randomize(np.tile(values, collections), seed=seed)
    covered = 0
    for i, part in enumerate(np.split(reports, collections)):
        low, high = mechanism.estimate(mechanism.tally(part)).interval(0.95)
        v = i % len(frequencies)
        covered += bool(low[v] <= truth[v] <= high[v])
    assert binom.ppf(1e-8, collections, 0.94) <= covered <= binom.isf(1e-8, collections, 0.96)


def reports_are_distinct(mechanism: Mechanism) -> bool:
    """Whether `outputs` lists every report once."""
    listed = as_bytes(mechanism.outputs())
    return len(set(listed)) == len(listed) == mechanism.channel().shape[1]
