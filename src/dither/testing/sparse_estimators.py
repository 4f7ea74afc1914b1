"""Estimators of keys and values, by enumeration of what a report can add to the counts of a key.

A reading of sparse vectors (`KeyValues`) states, for a user without the key, with it at -1 and at +1, how probable each
outcome is. `check_hits` and `check_outcomes` find those probabilities from the channel, for every kind of user, with
all hash functions of the items equally likely, and compare: the law, the means (unbiased), the moments. What remains,
stated errors at expected counts and a few simulated collections, says its false-alarm probability.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.tally import Tally
from dither.mechanisms.keyvalue import Hits
from dither.testing.examples import component_of, read_expected
from dither.testing.rounding import as_signs
from dither.testing.samplers import row_of
from dither.testing.sign_sums import SUMMED, hashed_sign, total_law, total_of
from dither.testing.sign_vectors import signs_of


def ideal_outcomes(mechanism: Any, vector: dict[int, int], key: int) -> list[Fraction]:
    """P(none, only -, only +, both items of the key are hit), with every hash function of the items equally likely."""
    component = component_of(mechanism)
    assert component is not None
    t, half = mechanism.t, mechanism.t // 2
    padded = {**vector, **{mechanism.d + slot: 1 for slot in range(len(vector), mechanism.s)}}
    asked = [key] if mechanism.paired else [(key, -1), (key, 1)]
    own: list[Any] = list(padded) if mechanism.paired else list(padded.items())
    items = list(dict.fromkeys(own + asked))
    law = [Fraction(0)] * 4
    for values in product(range(t), repeat=len(items)):
        hashed: dict[Any, int] = dict(zip(items, values, strict=True))
        if mechanism.paired:
            sides: dict[int, list[int]] = {}
            for each in own:
                bucket = hashed[each] if padded[each] > 0 else (hashed[each] + half) % t
                sides.setdefault(bucket % half, []).append(bucket < half)
            places = {pair: Fraction(sum(first), len(first)) for pair, first in sides.items()}
            minus, plus = (hashed[key] + half) % t, hashed[key]
        else:
            places = {hashed[each]: Fraction(1) for each in own}
            minus, plus = hashed[key, -1], hashed[key, 1]
        for bucket, probability in enumerate(component.given(places)):
            law[(bucket == minus) + 2 * (bucket == plus)] += probability / t ** len(items)
    return law


def check_hits(mechanism: Any) -> None:
    """Under ideal hashing, conflicts and dummies included, hits and moments are what the reading says, exactly."""
    hits: Hits = mechanism.hits
    s = mechanism.s
    for vector in ({}, {0: 1}, {key: (-1) ** key for key in range(s)}, dict.fromkeys(range(s), -1)):
        chances = []
        for key in range(mechanism.d):
            none, minus, plus, both = ideal_outcomes(mechanism, vector, key)
            assert none + minus + plus + both == 1
            own = vector.get(key, 0)
            if own:
                true, opposite = (plus, minus) if own > 0 else (minus, plus)
                assert (true + both, opposite + both, both) == (hits.true, hits.opposite, hits.both)
            else:
                assert (plus + both, minus + both, both) == (hits.false, hits.false, hits.both_false)
            chances.append([float(chance) for chance in (none, minus, plus, both)])
        _check_moments(mechanism, vector, np.array(chances))
    _check_tally(mechanism)


def _check_moments(mechanism: Any, vector: dict[int, int], chances: NDArray) -> None:
    """Values of each outcome as the estimate of one report gives them; their moments are the stated ones."""
    reading = mechanism.reading
    truth = np.array([vector.get(key, 0) for key in range(mechanism.d)], dtype=float)
    counts = {0: (0, 0), 1: (1, 0), 2: (0, 1), 3: (1, 1)}
    scores = np.empty((4, mechanism.d))
    for outcome, (minus, plus) in counts.items():
        tally = Tally(mechanism.fingerprint, 1, np.tile([minus, plus], (mechanism.d, 1)))
        made = read_expected(mechanism, tally)
        scores[outcome] = made["mean"].value
        presence = made["presence"].value
        np.testing.assert_allclose(made["frequency"].value.sum(axis=1), presence, atol=1e-9)
        scores_presence = reading.law.scores["presence"][outcome]
        np.testing.assert_allclose(presence, scores_presence, rtol=1e-12)
    mean = np.einsum("ko,ok->k", chances, scores)
    np.testing.assert_allclose(mean, truth, atol=1e-9)
    np.testing.assert_allclose(chances @ reading.law.scores["presence"], np.abs(truth), atol=1e-9)
    stated = mechanism.moments([vector])
    centred = np.abs(scores.T - mean[:, None])
    np.testing.assert_allclose(stated.bias[0], 0.0, atol=1e-9)
    np.testing.assert_allclose(stated.variance[0], (chances * centred**2).sum(axis=1), rtol=1e-9)
    np.testing.assert_allclose(stated.third[0], (chances * centred**3).sum(axis=1), rtol=1e-9)


def _check_tally(mechanism: Any) -> None:
    """The tally counts hits of the same items as the sampler hashes: a law with no noise hits every own item."""
    seeds = np.arange(1, 400, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    reports = np.zeros(len(seeds), dtype=mechanism.dtype)
    for key, sign in product(range(mechanism.d), (-1, 1)):
        alone = {key: sign}
        for row, seed in enumerate(seeds.tolist()):
            places = mechanism._places(alone, seed)
            padded = [place for place in places if place not in mechanism._places({}, seed)]
            favoured = max(places, key=lambda place: place in padded)
            if mechanism.paired and places[favoured] == 0:
                favoured += mechanism.t // 2
            reports[row] = (seed, favoured)
        tally = mechanism.tally(reports).counts
        assert tally.shape == (mechanism.d, 2)
        if mechanism.s == 1:
            assert tally[key, int(sign > 0)] == len(seeds)
        assert tally[key, int(sign > 0)] == tally.max()


Outcomes = dict[tuple[int, ...], Any]


def check_outcomes(mechanism: Any) -> None:
    """What reports add to the counts of a key, for every kind of user: the reading's law, unbiased, stated moments.

    By enumeration of all reports; of those with hash functions, over all signs of the items that matter.
    """
    law, d, s = mechanism.reading.law, mechanism.d, mechanism.s
    if mechanism.structure in SUMMED:
        check_sums(mechanism)
        made = signed_outcomes
    else:
        counts = [[tuple(row) for row in mechanism.tally(report).counts.tolist()] for report in mechanism.outputs()]
        made = partial(listed_outcomes, counts=counts)
    mixed = {key: (-1) ** key for key in range(s)}
    vectors: list[dict[int, float]] = [{}, {0: 1}, {d - 1: -1}, mixed, dict.fromkeys(range(s), -1)]
    vectors += [{0: 0.3}, {**mixed, 0: -0.75}]
    if mechanism.sample and s < d:
        vectors += [dict.fromkeys(range(s + 1), 1), {key: 0.5 * (-1) ** key for key in range(d)}]
    seen = sorted({tuple(int(each) for each in outcome) for outcome in law.seen})
    scores = _scores(mechanism, seen)

    @cache
    def chances(signs: tuple[tuple[int, int], ...]) -> NDArray:
        """For each key (rows) the probabilities of the outcomes, of a user with these signs."""
        found = made(mechanism, dict(signs))
        for key, outcomes in enumerate(found):
            _check_kind(mechanism, dict(signs).get(key, 0), outcomes)
        asked = [_asked(mechanism, outcomes) for outcomes in found]
        return np.array([[float(each.get(outcome, 0)) for outcome in seen] for each in asked])

    for vector in vectors:
        mixed_ = [float(share) * chances(signs) for signs, share in as_signs(mechanism, vector).items()]
        _check_scores(mechanism, vector, np.sum(mixed_, axis=0), scores)


def listed_outcomes(mechanism: Any, signs: dict[int, int], counts: list[list[tuple[int, ...]]]) -> list[Outcomes]:
    """For each key what a report adds to its counts, to its probability."""
    row = row_of(mechanism, signs, 0)
    found: list[Outcomes] = [{} for _ in range(mechanism.d)]
    for chance, added in zip(row, counts, strict=True):
        for law, own in zip(found, added, strict=True):
            law[own] = law.get(own, Fraction(0)) + chance
    return found


def signed_outcomes(mechanism: Any, signs: dict[int, int]) -> list[Outcomes]:
    """The same where every item has a random sign."""
    d, s, width = mechanism.d, mechanism.s, mechanism.component().shape[1]
    laws = {total: [float(cell) for cell in total_law(mechanism, total)] for total in range(-s - 1, s + 2)}
    found: list[Outcomes] = []
    for key in range(d):
        asked = [2 * key, 2 * key + 1] if mechanism.goal == "frequency" else [key]
        used: list[int] = []  # the items that the sum asks for
        total_of(mechanism, signs, lambda item, used=used: used.append(item) or 1)
        items = list(dict.fromkeys(used + asked))
        odds: Counter[tuple[int, ...]] = Counter()
        for pattern in product((-1, 1), repeat=len(items)):
            sign = dict(zip(items, pattern, strict=True))
            odds[total_of(mechanism, signs, sign.__getitem__), *(sign[item] for item in asked)] += 1
        law: Outcomes = {}
        for (total, *own), count in odds.items():
            for value, chance in enumerate(laws[total]):
                seen = tuple(each * (2 * value - width + 1) for each in own)
                law[seen] = law.get(seen, 0.0) + chance * count / (1 << len(items))
        found.append(law)
    return found


def check_sums(mechanism: Any) -> None:
    """The tally adds up centred values with the signs of the same items as the sampler, and so does the channel."""
    seeds, width = range(1, 60), mechanism.component().shape[1]
    for seed in seeds:
        value, sign = 7 * seed % width, hashed_sign(seed)
        report = np.array([(seed, value)], dtype=mechanism.dtype)
        items = range(2 * mechanism.d if mechanism.goal == "frequency" else mechanism.d)
        expected = [sign(item) * (2 * value - width + 1) for item in items]
        assert mechanism.tally(report).counts.ravel().tolist() == expected
    channel, listed = mechanism.channel(), signs_of(mechanism.d, mechanism.s)
    for x, seed in product(np.linspace(0, len(listed) - 1, 6).astype(int).tolist(), range(3)):
        expected = total_law(mechanism, total_of(mechanism, listed[x], hashed_sign(seed)))
        # The sampler reads a place on the lattice with some fifty digits, the channel with all.
        assert max(abs(a - b) for a, b in zip(channel.given(x, seed), expected, strict=True)) < Fraction(1, 2**48)


def counts_asked(mechanism: Any) -> bool:
    """Whether the first count of a key is the number of reports about it."""
    return mechanism.tally(mechanism.randomize([])).counts.shape[1] > mechanism.reading.law.seen.shape[1]


def _asked(mechanism: Any, outcomes: Outcomes) -> Outcomes:
    """Given that a report is about the key, where only some are; the first count says so."""
    if not counts_asked(mechanism):
        return outcomes
    share = Fraction(mechanism.reading.law.asked).limit_denominator(1 << 20)
    asked = {rest: chance / share for (first, *each), chance in outcomes.items() if first for rest in [tuple(each)]}
    assert sum(asked.values()) == 1  # asked as often as the reading says
    return asked


HIT = ([(1, 0), (1, 1)], [(0, 1), (1, 1)], [(1, 1)])


def _check_kind(mechanism: Any, sign: int, outcomes: Outcomes) -> None:
    """The outcomes of a user who has the key with this sign, or not, are those of the reading."""
    law, asked = mechanism.reading.law, _asked(mechanism, outcomes)
    assert abs(sum(asked.values()) - 1) < 1e-12
    if mechanism.structure not in SUMMED:
        minus, plus, both = (sum(asked.get(each, Fraction(0)) for each in some) for some in HIT)
        true, opposite = (plus, minus) if sign > 0 else (minus, plus)
        hits = mechanism.hits
        stated = (hits.true, hits.opposite, hits.both) if sign else (hits.false, hits.false, hits.both_false)
        assert (true, opposite, both) == stated
    expected: dict[tuple[int, ...], float] = {}
    for seen, chance in zip(law.seen, law.chance[{0: 0, -1: 1, 1: 2}[sign]], strict=True):
        own = tuple(int(each) for each in seen)
        expected[own] = expected.get(own, 0.0) + float(chance)
    assert all(abs(expected.get(own, 0) - asked.get(own, 0)) < 1e-12 for own in expected.keys() | asked.keys())


def _scores(mechanism: Any, seen: list[tuple[int, ...]]) -> dict[str, NDArray]:
    """What each outcome counts for each statistic: the estimate of a single report."""
    d, found = mechanism.d, {}
    first = (1,) if counts_asked(mechanism) else ()
    for at in range(0, len(seen), d):
        some = seen[at : at + d]
        counts = np.array([(*first, *each) for each in (some * d)[:d]])
        made = read_expected(mechanism, Tally(mechanism.fingerprint, 1, counts))
        for name in made.keys() - {"conditional_mean"}:
            found.setdefault(name, []).append(made[name].value[: len(some)])
    scores = {name: np.concatenate(parts) for name, parts in found.items()}
    if "frequency" in scores:
        minus, plus = scores.pop("frequency").T
        scale = max(1.0, np.abs(plus).max())
        np.testing.assert_allclose(plus + minus, scores["presence"], atol=1e-12 * scale)
        np.testing.assert_allclose(plus - minus, scores["mean"], atol=1e-12 * scale)
    return scores


def _check_scores(mechanism: Any, vector: Mapping[int, float], found: NDArray, scores: dict[str, NDArray]) -> None:
    """Unbiased but for keys that were not drawn; the moments of one report as stated, of each statistic."""
    reading, d = mechanism.reading, mechanism.d
    assert scores.keys() == reading.law.reads.keys()
    assert reading.about in scores
    kept = min(1.0, mechanism.s / max(1, len(vector)))
    held = {
        "mean": [float(vector.get(key, 0.0)) for key in range(d)],
        "presence": [float(j in vector) for j in range(d)],
    }
    for name, score in scores.items():
        scale = np.abs(score).max()
        mean = found @ score
        np.testing.assert_allclose(mean, kept * np.array(held[name]), atol=1e-11 * scale)
        asked = reading.law.asked
        spread = score / asked - mean[:, None]
        stated = replace(reading, about=name).moments([vector])
        np.testing.assert_allclose(stated.bias[0], (kept - 1) * np.array(held[name]), atol=1e-11 * scale)
        for power, moment in ((2, stated.variance[0]), (3, stated.third[0])):
            true = asked * (found * np.abs(spread) ** power).sum(axis=1) + (1 - asked) * np.abs(mean) ** power
            np.testing.assert_allclose(moment, true, rtol=1e-9)


def sparse_truth(mechanism: Any, vectors: list[dict[int, float]]) -> dict[str, NDArray]:
    """What the estimates of these users are about; of a user with L > s keys each counts s/L."""
    value, held = np.zeros((len(vectors), mechanism.d)), np.zeros((len(vectors), mechanism.d))
    for row, vector in enumerate(vectors):
        share = min(1.0, mechanism.s / max(1, len(vector)))
        for key, number in vector.items():
            value[row, key], held[row, key] = number * share, share
    mean, presence = value.mean(axis=0), held.mean(axis=0)
    return {
        "mean": mean,
        "presence": presence,
        "conditional_mean": mean / np.where(presence > 0, presence, np.nan),
        "frequency": np.stack([presence - mean, presence + mean], axis=1) / 2,
    }


def sparse_scores(mechanism: Any, vectors: list[dict[int, float]], *, times: int, seed: int) -> dict[str, NDArray]:
    """The error of each statistic of a simulated collection, in stated standard errors: every vector `times` times."""
    rows = np.repeat(mechanism.reading.domain.check(vectors), times)
    estimates = mechanism.estimate(mechanism.tally(mechanism.randomize(rows, seed=seed)))
    truth = sparse_truth(mechanism, vectors)
    if len(estimates) == 1:  # all that was asked for
        assert list(estimates) == [mechanism.reading.about]
        return {name: (part.value - truth[name]) / part.stderr for name, part in estimates.items()}
    assert list(estimates) == ["presence", "mean", "conditional_mean", "frequency"]
    np.testing.assert_allclose(estimates["frequency"].value.sum(axis=1), estimates["presence"].value, atol=1e-12)
    minus, plus = estimates["frequency"].value.T
    np.testing.assert_allclose(plus - minus, estimates["mean"].value, atol=1e-12)
    return {name: (part.value - truth[name]) / part.stderr for name, part in estimates.items()}


def check_sparse_estimates(
    mechanism: Any, vectors: list[dict[int, float]], *, times: int, seed: int, alarm: float = 1e-6
) -> None:
    """No statistic of a key is off by more than its noise explains: all together a false alarm of `alarm`.

    The conditional mean is looked at where it is known; a ratio is nearly normal there, if presence is well known.
    """
    from scipy.stats import norm

    scores = sparse_scores(mechanism, vectors, times=times, seed=seed)
    found = np.concatenate([np.ravel(score) for score in scores.values()])
    found = found[~np.isnan(found)]
    assert found.size >= mechanism.d * (4 if len(scores) > 1 else 1)
    assert np.abs(found).max() < norm.isf(alarm / (2 * found.size))


def expected_tally(mechanism: Any, vectors: list[dict[int, float]], n: int) -> Tally:
    """A tally with the expected counts of these users."""
    law, truth = mechanism.reading.law, sparse_truth(mechanism, vectors)["frequency"]
    kinds = np.column_stack([1 - truth.sum(axis=1), truth])
    counts = n * law.asked * (kinds @ law.chance @ law.seen)
    if counts_asked(mechanism):
        counts = np.column_stack([np.full(mechanism.d, n * law.asked), counts])
    return Tally(mechanism.fingerprint, n, np.rint(counts).astype(np.int64))


def check_sparse_errors(mechanism: Any, vectors: list[dict[int, float]], n: int = 10**12) -> None:
    """At the expected counts stated errors are those of the reports' moments; where signs hide values, no smaller.

    Where only some are asked about a key, they differ from all: that is stated too, and no part of the moments.
    """
    reading = mechanism.reading
    made = read_expected(mechanism, expected_tally(mechanism, vectors, n))
    signs = all(abs(value) == 1 for vector in vectors for value in vector.values())
    for name in reading.law.reads:
        own = replace(reading, about=name)
        true, held = own.moments(vectors).variance.mean(axis=0), own.truth(vectors)
        if (
            reading.law.asked < 1
        ):  # the moments count zero for who was not asked: here the number of those asked divides
            true = true - (1 / reading.law.asked - 1) * held.mean(axis=0) ** 2
        stated = made[name].stderr ** 2 * n
        assert (stated >= true * (1 - 1e-4)).all()
        if signs and (np.ptp(np.where(held == 0, np.nan, held), axis=0) == 0)[held.any(axis=0)].all():
            np.testing.assert_allclose(stated, true, rtol=1e-4)


def check_simulated_errors(mechanism: Any, vectors: list[dict[int, float]], *, seed: int, alarm: float) -> None:
    """Squared errors of 300 collections of 2,000 users are as large as predicted; false alarm `alarm`.

    Of each key on its own: estimates are all but normal, so that the sum of squares is chi-square.
    """
    from scipy.stats import chi2

    collections, users, reading = 300, 2000 // len(vectors) * len(vectors), mechanism.reading
    rows = np.tile(reading.domain.check(vectors), collections * users // len(vectors))
    reports = mechanism.randomize(rows, seed=seed)
    predicted = reading.moments(vectors)
    truth = reading.truth(vectors).mean(axis=0) + predicted.bias.mean(axis=0)
    variance = predicted.variance.mean(axis=0)
    if reading.law.asked < 1:
        variance = variance - (1 / reading.law.asked - 1) * truth**2
    found = [mechanism.estimate(mechanism.tally(part))[reading.about].value for part in np.split(reports, collections)]
    squares = ((np.array(found) - truth) ** 2).sum(axis=0) * users / variance
    each = alarm / (2 * len(truth))
    assert (squares > chi2.ppf(each, collections)).all()
    assert (squares < chi2.isf(each, collections)).all()
