"""The contract: what every mechanism in the registry must keep, as functions that raise where it is broken.

`test_contract.py` runs them over the registry; `test_mutants.py` breaks the code and expects them to notice. Exact
things are compared exactly: the production sampler runs over every tape of short words, and its counts must be the
channel's fractions. A statistical check states its false-alarm probability.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import combinations, product
from math import comb, floor, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, chi2, norm

import dither
from contract.tapes import EveryTape, ProbeTape, SomeWordsTape, probed
from dither.core.additive_channel import AdditiveChannel
from dither.core.ball_domain import Ball
from dither.core.channel import Table, TwoLevel
from dither.core.composite_channels import Announced, PublicMixture, Repeated
from dither.core.domains import Categories, Records, UnitInterval
from dither.core.draw import DRAW, ELEMENT, TAG
from dither.core.exact import exp_below, log_above, root_below
from dither.core.hashed_channel import HashedChannel
from dither.core.lattice import ROUNDING, split
from dither.core.mechanism import Mechanism
from dither.core.sparse_columns import EMPTY
from dither.core.sparse_domain import Sparse, signs_of
from dither.kernels import with_numpy
from dither.kernels.hashing import buckets
from dither.mechanisms.codebooks import Rotated, seeds_of_parts, whole_vectors
from dither.mechanisms.collision import ORDER
from dither.mechanisms.frequency import Frequencies
from dither.mechanisms.key_sampling import CHOICE
from dither.mechanisms.keyvalue import Hits, KeyValues
from dither.mechanisms.memoized import Memoized
from dither.mechanisms.multi_attribute import MultiAttribute
from dither.mechanisms.personalised import RECORD, Choices, Pooled
from dither.ranges.collection import Ranges

MOST_TAPE_BITS = 18
MOST_SPARSE_BITS = 20
LONGEST_WORD = 6
SEEDS = 8  # hash functions that a certificate is compared with
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
    """A column as the mechanism takes it: for records, the same value in every dimension; of keys, the first one's."""
    domain = mechanism.reading.domain
    if isinstance(domain, Choices):
        if isinstance(column, np.ndarray) and column.dtype.kind in "iuf":
            rows = np.zeros(len(column), dtype=RECORD)
            rows["value"] = column
            return rows
        return {"value": column, "group": np.zeros(len(column), dtype=np.uint8)}
    if isinstance(domain, Sparse):
        return [{0: value} for value in column]
    if not isinstance(domain, Records | Ball):
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
    return isinstance(mechanism.reading, MultiAttribute)


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
    if isinstance(mechanism, Memoized):
        changes = {"first": epsilon * mechanism.first / mechanism.epsilon, **changes}
    return type(mechanism)(**{**stored, "epsilon": epsilon, **changes})


def check_certificate(mechanism: Mechanism) -> None:
    """At most what was declared and within 1e-9 of it; enumeration of all pairs agrees with the structure."""
    promise = dither.privacy.certify(mechanism)
    assert promise == mechanism.guarantee
    assert promise.epsilon <= mechanism.epsilon
    assert promise.delta <= mechanism.delta
    if isinstance(mechanism, Memoized):
        assert 0 <= mechanism.first - mechanism.first_report.epsilon <= 1e-9
    if mechanism.delta == 0:
        assert mechanism.epsilon - promise.epsilon <= 1e-9
    else:
        assert promise.epsilon == mechanism.epsilon
        several = parts_of(mechanism) or isinstance(mechanism.channel(), Repeated)
        tight = 1 / 1000 if several else 1  # m reports at delta / m each keep less than delta
        assert promise.delta >= tight * mechanism.delta * (1 - 1e-9)


def check_channel(mechanism: Mechanism) -> None:
    """Rows sum to one; ratio, divergence and blanket are those of the written-out matrix."""
    if isinstance(mechanism, dither.BallGaussian):
        return  # its reports cannot be listed; its own tests compare it with the continuum
    channel = mechanism.channel()
    if parts_of(mechanism) and (max(channel.shape) > LARGEST_LISTED or isinstance(channel, Announced)):
        assert channel.ratio() == _product_of_ratios(mechanism)
        for part in parts_of(mechanism):
            check_channel(part)
        return
    if channel.shape[1] > LARGEST_LISTED:
        assert isinstance(channel, PublicMixture)
        if isinstance(mechanism, dither.UnitVector):
            assert channel.ratio() == mechanism.law.ratio() ** mechanism.number
            small: Any = short_codebook(mechanism, 1 << 12)
            check_worst_tag(small.channel(), range(SEEDS))
            channel = replace(channel, component=mechanism.law)
        if isinstance(mechanism.reading.domain, Sparse):
            check_worst_tag(channel, range(SEEDS), _same_rows(mechanism))
        channel = channel.component
        if isinstance(mechanism, dither.Succinct):
            return  # what follows is Laplace's channel
    elif isinstance(channel, PublicMixture) and channel.tags > 1 and isinstance(mechanism.reading.domain, Sparse):
        check_worst_tag(channel, range(channel.tags))
    inputs = channel.shape[0]
    matrix = np.array([channel.row(x) for x in (range(inputs) if inputs <= 40 else (0, 1, inputs // 2, inputs - 1))])
    assert all(sum(row) == 1 for row in matrix)
    assert all(probability > 0 for row in matrix for probability in row)
    assert channel.ratio() == max(max(column) / min(column) for column in matrix.T)
    for ratio in (Fraction(1), exp_below(mechanism.epsilon), exp_below(mechanism.epsilon / 2)):
        enumerated = max(
            sum(max(Fraction(0), a - ratio * b) for a, b in zip(x, y, strict=True)) for x in matrix for y in matrix
        )
        assert enumerated <= channel.divergence(ratio)
        # The worst tag is stated; where there is but one, a bound has to say so.
        tagged = isinstance(channel, PublicMixture) and channel.tags > 1 and not composed(mechanism)
        assert enumerated == channel.divergence(ratio) or tagged or not channel.exact
    assert channel.blanket().mass <= sum(min(column) for column in matrix.T)
    assert channel.profile(channel.epsilon) == 0


def check_worst_tag(
    channel: PublicMixture, tags: Iterable[int], same: Callable[[int, int], Any] = lambda x, tag: x
) -> None:
    """Under every one of these tags no more is lost than is stated, and under one of them just as much.

    Of inputs for which `same` is the same under a tag, one stands for all.
    """
    epsilon = channel.epsilon
    ratios = (Fraction(1), Fraction(9, 8), exp_below(epsilon / 2), exp_below(epsilon * 0.9), exp_below(epsilon))
    worst, lost = Fraction(1), dict.fromkeys(ratios, Fraction(0))
    for tag in tags:
        kinds = {same(x, tag): x for x in range(min(channel.shape[0], 100))}
        rows = list({tuple(channel.given(x, tag)) for x in kinds.values()})
        assert all(sum(row) == 1 and min(row) > 0 for row in rows)
        table = Table.of(rows)
        worst = max(worst, table.ratio())
        lost = {ratio: max(most, table.divergence(ratio)) for ratio, most in lost.items()}
        assert channel.blanket().mass <= table.blanket().mass
    assert worst == channel.ratio()
    for ratio, most in lost.items():
        assert most <= channel.divergence(ratio)
        assert most == channel.divergence(ratio) or not channel.exact


def _same_rows(mechanism: Any) -> Callable[[int, int], Any]:
    if not isinstance(mechanism, SUMMED):
        return lambda x, tag: x
    listed = signs_of(mechanism.d, mechanism.s)
    return lambda x, tag: total_of(mechanism, listed[x], hashed_sign(tag))


def _product_of_ratios(mechanism: Mechanism) -> Fraction:
    dimensions = mechanism.reading
    ratios = [Fraction(part.channel().ratio()) for part in parts_of(mechanism)]
    if isinstance(mechanism, dither.Histogram):
        return ratios[0] ** 2  # two entries differ
    if isinstance(mechanism, dither.Personalised | Ranges):
        return max(ratios)
    assert isinstance(dimensions, MultiAttribute)
    ratios = sorted(Fraction(dimensions.part(j).channel().ratio()) for j in range(dimensions.d))
    return prod(ratios[-dimensions.m :], start=Fraction(1))


def check_sampler(mechanism: Mechanism) -> bool:
    """The production sampler, over every tape of short words, gives exactly the channel's probabilities.

    False if there are too many tapes, which happens to reports of several reports only.
    """
    if isinstance(mechanism, dither.BallGaussian):
        return False
    if isinstance(mechanism.reading.domain, Sparse):
        for value in sparse_inputs(mechanism):
            check_sparse_sampler(mechanism, value)
        return True
    small, bits = with_short_weights(mechanism)
    if small is None:
        several = parts_of(mechanism) or isinstance(mechanism.channel(), Repeated)  # corners have a test of their own
        assert several or isinstance(mechanism, dither.UnitVector)  # at least 2 d codewords
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
    if isinstance(domain, UnitInterval):
        return np.append(inputs[np.unique([0, len(inputs) // 2, -1])], 0.3)
    if isinstance(domain, Choices):
        off = inputs[:1].copy()
        off["value"] = domain.groups[0].centre + 0.3 * domain.groups[0].half
        return np.concatenate([inputs[np.unique([0, len(inputs) // 3, -1])], off])
    if isinstance(domain, Records):
        between = [0.3 - 0.1 * j if isinstance(domain.of(j), UnitInterval) else 1 for j in range(domain.d)]
        return np.vstack([inputs[np.unique([0, len(inputs) // 3, -1])], between])
    if isinstance(domain, Sparse):
        return np.append(inputs[np.unique([0, 1, len(inputs) // 2, -1])], domain.check([{0: 0.3}]))
    if isinstance(domain, Ball):
        return np.vstack([inputs[:2], 0.3 * inputs[-2:-1], 0.0 * inputs[:1], domain.points(2 * domain.d + 1)[-1:]])
    return inputs


def as_bytes(reports: NDArray) -> list[bytes]:
    """Each report as bytes."""
    return np.ascontiguousarray(reports).view(f"V{reports.dtype.itemsize}").tolist()


# Sparse vectors -----------------------------------------------------------------------------------------------------


def component_of(mechanism: Mechanism) -> HashedChannel | None:
    """The channel of hashed items under one hash function, if the mechanism has one."""
    component = getattr(mechanism.channel(), "component", None)
    return component if isinstance(component, HashedChannel) else None


def sparse_inputs(mechanism: Any) -> list[dict[int, float]]:
    """No key, one (dummies fill up), s of both signs, numbers to round; with `sample` also more than s."""
    d, s = mechanism.d, mechanism.s
    mixed = {key: 1.0 - 2 * (key % 2) for key in range(s)}
    found: list[dict[int, float]] = [{}, {d - 1: -1.0}, mixed, {**mixed, 0: 0.3}]
    if mechanism.sample and s < d:
        found += [dict.fromkeys(range(s + 1), 1.0), {key: (-1.0) ** key for key in range(d)}]
    return found


def check_sparse_sampler(mechanism: Any, vector: Mapping[int, float]) -> None:
    """Over all tapes of short words the reports have exactly the law of the channel, mixed over all short seeds."""
    small, bits, varied = short_sparse(mechanism, vector)
    expected = sparse_law(small, vector, bits)
    for filler in (0, (1 << bits) - 1):
        tape = SomeWordsTape(bits, varied, filler)
        reports = small.drawn(many(small.reading.domain.check([vector])[0], tape.rows), tape)
        assert small.valid(reports).all()
        rows, inverse = tape.odds()
        column = columns_of(small, reports[rows])
        found = [Fraction(0)] * len(expected)
        for odds in np.unique(inverse).tolist():
            counts = np.bincount(column[inverse == odds], minlength=len(found)).tolist()
            found = [before + Fraction(count, odds) for before, count in zip(found, counts, strict=True)]
        assert found == expected


def columns_of(mechanism: Any, reports: NDArray) -> NDArray[np.int64]:
    """Which column of the channel each report is; where it has a hash function, those of one stand together."""
    if "seed" in (reports.dtype.names or ()):
        return reports["seed"].astype(np.int64) * mechanism.channel().component.shape[1] + reports["value"]
    listed, found = (_as_numbers(each) for each in (mechanism.outputs(), reports))
    order = np.argsort(listed)
    column = order[np.minimum(np.searchsorted(listed, found, sorter=order), len(order) - 1)]
    assert (listed[column] == found).all()
    return column


def _as_numbers(reports: NDArray) -> NDArray[np.uint64]:
    """Reports of at most eight bytes as numbers."""
    packed = np.ascontiguousarray(reports).view(np.uint8).reshape(len(reports), -1)
    return np.ascontiguousarray(np.pad(packed, [(0, 0), (0, 8 - packed.shape[1])])).view(np.uint64)[:, 0]


def short_sparse(mechanism: Any, vector: Mapping[int, float]) -> tuple[Any, int, dict[Any, tuple[int, ...]]]:
    """Short weights, their word length, and the words that matter for this vector.

    The words of signs have nothing to round, the first place in an order is no choice: `check_sparse_sampler` finds
    out if one of the words that are left out matters after all.
    """
    few = MOST_TAPE_BITS - 2 * (component_of(mechanism) is None)  # conflicts of hashed items need many hash functions
    for rejecting, most in ((True, few), (True, MOST_SPARSE_BITS), (False, MOST_SPARSE_BITS)):
        for bits in range(LONGEST_WORD, 1, -1):
            small = _short_sparse(mechanism, bits, rejecting)
            if small is not None:
                varied = _words_that_matter(small, bits, vector)
                if sum(map(len, varied.values())) * bits <= most:
                    return small, bits, varied
    raise AssertionError("there are too many tapes")


def _short_sparse(mechanism: Any, bits: int, rejecting: bool) -> Any:
    if isinstance(mechanism, dither.PCKV_UE):
        # One digit of b and a table with ties; where a user draws nothing, two digits and a table without.
        finer = mechanism.s == 1 and not mechanism.sample
        weights = (9, 1, 1, 4) if finer else (2, 1, 1, 2)
        large = replace(mechanism, epsilon=16.0, weights=weights)
        fits = bits >= mechanism.d and rejecting != finer and (rejecting or bits == 4)
        return replace(large, epsilon=log_above(Fraction(large.channel().ratio()))) if fits else None
    if isinstance(mechanism, dither.Succinct):
        if mechanism.noise.law.stretch > 1:
            law = AdditiveChannel((6, 3, 2), steps=1, reach=1, stretch=2)
        else:
            law = (
                AdditiveChannel((9, 7, 4, 2, 1), steps=2, reach=2)
                if rejecting
                else AdditiveChannel((6, 3, 2), steps=1, reach=1)
            )
        weights = (*law.weights, law.steps, law.reach, law.stretch)
        return replace(mechanism, epsilon=log_above(law.ratio()), weights=weights)
    if getattr(mechanism, "cohorts", None):
        mechanism = replace(mechanism, cohorts=11)  # some words are rejected, and a short one tells them apart
    return _short_law(mechanism, 1 << bits, rejecting)


def _words_that_matter(mechanism: Any, bits: int, vector: Mapping[int, float]) -> dict[Any, tuple[int, ...]]:
    """Lanes to columns, in the order in which what is accepted on one lane depends on others before."""
    s, read = mechanism.s, _lanes(mechanism, bits)
    single = isinstance(mechanism, dither.PrivKV | dither.PCKV_GRR | dither.PCKV_UE)  # one key is reported on
    real = [slot for slot, value in enumerate(vector.values()) if abs(value) != 1]
    varied: dict[Any, tuple[int, ...]] = {TAG: tuple(range(read.get(TAG, 0)))}
    varied[DRAW] = tuple(range(read[DRAW]))
    if single:
        varied[CHOICE] = (0,) if max(len(vector), s) > 1 else ()
    elif len(vector) > s:
        varied[CHOICE] = tuple(range(s))
    many_ = range(s) if len(vector) > s else real  # keys that were drawn stand anywhere
    varied[ROUNDING] = () if not real else (0,) if single else tuple(many_)
    varied[ORDER] = tuple(range(1, s)) if getattr(mechanism, "paired", False) else ()
    others = [lane for lane in read if lane not in (TAG, DRAW, CHOICE, ROUNDING, ORDER, ELEMENT)]
    varied |= dict.fromkeys(others, (0,))
    if isinstance(mechanism, dither.Succinct) and not others:  # the sum is rounded to the lattice by some word, too
        varied[ROUNDING] = tuple(sorted({*varied[ROUNDING], *range(s, read[ROUNDING]), 0}))
    varied[ELEMENT] = tuple(range(read.get(ELEMENT, 0)))  # its bound depends on all the others
    if isinstance(mechanism, dither.PCKV_UE | dither.Succinct):
        total = sum(mechanism.own) if isinstance(mechanism, dither.PCKV_UE) else mechanism.noise.law.total
        varied[ELEMENT] = varied[ELEMENT] if (1 << bits) % total else ()  # all edges lie between words: no tie
    return {lane: columns for lane, columns in varied.items() if columns}


def sparse_law(mechanism: Any, vector: Mapping[int, float], bits: int) -> list[Fraction]:
    """P(report): every choice of s keys, every rounding, every short seed."""
    law: list[Fraction] = []
    for signs, share in as_signs(mechanism, vector, bits).items():
        row = _row_of(mechanism, dict(signs), bits)
        law = law or [Fraction(0)] * len(row)
        law = [before + share * added for before, added in zip(law, row, strict=True)]
    return law


def as_signs(
    mechanism: Any, vector: Mapping[int, float], bits: int = 64
) -> dict[tuple[tuple[int, int], ...], Fraction]:
    """The vectors of signs that a vector becomes, and how often: s of more keys are drawn, numbers are rounded."""
    kept = min(len(vector), mechanism.s)
    found = {}
    for keys in combinations(vector, kept):
        for signs in product((-1, 1), repeat=kept):
            pairs = tuple(zip(keys, signs, strict=True))
            up = [_rounded_number(vector[key], 1, bits).get(int(sign > 0), 0) for key, sign in pairs]
            share = prod(up, start=Fraction(1, comb(len(vector), kept)))
            if share:
                found[pairs] = share
    return found


def _row_of(mechanism: Any, signs: dict[int, int], bits: int) -> list[Fraction]:
    """P(report | a vector of signs), for hash functions with short seeds."""
    if isinstance(mechanism, SUMMED):
        laws = {total: total_law(mechanism, total, bits) for total in range(-mechanism.s - 1, mechanism.s + 2)}
        totals = (total_of(mechanism, signs, hashed_sign(seed)) for seed in range(1 << bits))
        return [cell / (1 << bits) for total in totals for cell in laws[total]]
    channel, x = mechanism.channel(), signs_of(mechanism.d, mechanism.s).index(signs)
    if channel.shape[1] <= LARGEST_LISTED:
        return channel.row(x)
    return [cell / (1 << bits) for seed in range(1 << bits) for cell in channel.given(x, seed)]


# What Succinct and SignSum do, by their definition: signs of items are added up, dummies included.

SUMMED = (dither.Succinct, dither.SignSum)


def hashed_sign(seed: int) -> Callable[[int], int]:
    """The sign that a hash function gives to an item."""
    return partial(_hashed_sign, seed)


@cache
def _hashed_sign(seed: int, item: int) -> int:
    return 2 * int(buckets(np.array([seed], dtype=np.uint64), np.array([item]), 2)[0]) - 1


def total_of(mechanism: Any, signs: Mapping[int, int], sign: Callable[[int], int]) -> int:
    """The sum for a user, padded to s keys and to an odd number of them."""
    d, s = mechanism.d, mechanism.s
    padded = {**signs, **{d + slot: 1 for slot in range(len(signs), s | 1)}}
    if mechanism.goal == "frequency":
        return sum(sign(2 * key + (own > 0)) for key, own in padded.items())
    return sum((own if mechanism.goal == "mean" else 1) * sign(key) for key, own in padded.items())


def total_law(mechanism: Any, total: int, bits: int = 64) -> list[Fraction]:
    """P(reported value) for a sum; what lies between lattice points is rounded with words of so many bits."""
    high, low, *_ = mechanism.weights
    if isinstance(mechanism, dither.SignSum):
        return [Fraction(high if (total > 0) == bool(value) else low, high + low) for value in range(2)]
    law = mechanism.noise.law
    clipped = max(-1.0, min(1.0, total / mechanism.eta))
    points = _rounded_number(clipped / law.stretch, law.steps, bits)
    rows = [[share * weight / law.total for weight in law.shifted(point)] for point, share in points.items()]
    return [sum(column, Fraction(0)) for column in zip(*rows, strict=True)]


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
    reading = mechanism.reading
    assert isinstance(reading, KeyValues)
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
        tally = dither.Tally(mechanism.fingerprint, 1, np.tile([minus, plus], (mechanism.d, 1)))
        made = mechanism.estimate(tally)
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
    if isinstance(mechanism, SUMMED):
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
    row = _row_of(mechanism, signs, 0)
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


def _check_kind(mechanism: Any, sign: int, outcomes: Outcomes) -> None:
    """The outcomes of a user who has the key with this sign, or not, are those of the reading."""
    law, asked = mechanism.reading.law, _asked(mechanism, outcomes)
    assert abs(sum(asked.values()) - 1) < 1e-12
    if isinstance(getattr(mechanism, "hits", None), Hits):
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


HIT = ([(1, 0), (1, 1)], [(0, 1), (1, 1)], [(1, 1)])


def _scores(mechanism: Any, seen: list[tuple[int, ...]]) -> dict[str, NDArray]:
    """What each outcome counts for each statistic: the estimate of a single report."""
    d, found = mechanism.d, {}
    first = (1,) if counts_asked(mechanism) else ()
    for at in range(0, len(seen), d):
        some = seen[at : at + d]
        counts = np.array([(*first, *each) for each in (some * d)[:d]])
        made = mechanism.estimate(dither.Tally(mechanism.fingerprint, 1, counts))
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
    scores = sparse_scores(mechanism, vectors, times=times, seed=seed)
    found = np.concatenate([np.ravel(score) for score in scores.values()])
    found = found[~np.isnan(found)]
    assert found.size >= mechanism.d * (4 if len(scores) > 1 else 1)
    assert np.abs(found).max() < norm.isf(alarm / (2 * found.size))


def expected_tally(mechanism: Any, vectors: list[dict[int, float]], n: int) -> dither.Tally:
    """A tally with the expected counts of these users."""
    law, truth = mechanism.reading.law, sparse_truth(mechanism, vectors)["frequency"]
    kinds = np.column_stack([1 - truth.sum(axis=1), truth])
    counts = n * law.asked * (kinds @ law.chance @ law.seen)
    if counts_asked(mechanism):
        counts = np.column_stack([np.full(mechanism.d, n * law.asked), counts])
    return dither.Tally(mechanism.fingerprint, n, np.rint(counts).astype(np.int64))


def check_sparse_errors(mechanism: Any, vectors: list[dict[int, float]], n: int = 10**12) -> None:
    """At the expected counts stated errors are those of the reports' moments; where signs hide values, no smaller.

    Where only some are asked about a key, they differ from all: that is stated too, and no part of the moments.
    """
    reading = mechanism.reading
    made = mechanism.estimate(expected_tally(mechanism, vectors, n))
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


def _lanes(mechanism: Mechanism, bits: int) -> dict[Any, int]:
    return _probed(mechanism, bits).lanes


def lanes_shared(mechanism: Mechanism) -> set[Any]:
    """The lanes from which some row takes the same words for two purposes: what they decide is not independent."""
    bits = 8
    if component_of(mechanism) is not None:  # the law must fit a word
        mechanism, bits, _ = short_sparse(mechanism, {})
    return _probed(mechanism, bits).twice


def _probed(mechanism: Mechanism, bits: int) -> ProbeTape:
    inputs = mechanism.inputs()
    return probed(lambda rows, tape: mechanism.drawn(inputs[np.arange(rows) % len(inputs)], tape), bits)


def _law(mechanism: Mechanism, value: Any, tape: EveryTape) -> dict[bytes, Fraction]:
    """Report, as bytes, to its probability given the value."""
    channel = mechanism.channel()
    if isinstance(mechanism, dither.Hybrid):
        return _law_of_branches(mechanism, value, tape.bits)
    if isinstance(mechanism, dither.UnitVector):
        return _law_of_codewords(mechanism, value, tape.bits)
    if isinstance(mechanism, Ranges):
        return _law_of_groups(mechanism, value, tape)
    if isinstance(channel, PublicMixture) and channel.tags == 1 << 64:  # on short words there are fewer hash seeds
        channel = replace(channel, tags=1 << tape.bits)
        outputs = np.empty(channel.shape[1], dtype=mechanism.dtype)
        outputs["seed"], outputs["value"] = np.divmod(np.arange(len(outputs)), channel.component.shape[1])
    else:
        outputs = mechanism.outputs()
    law = mixed(channel, rounding(mechanism, value, tape.bits))
    return {report: odds for report, odds in zip(as_bytes(outputs), law, strict=True) if odds}


def mixed(channel: Any, shares: dict[int, Fraction], number: Any = Fraction) -> list[Any]:
    """P(report) for an input that becomes these rows of the channel; every part of a repeated one rounds by itself."""
    if isinstance(channel, Repeated):
        law = [number(1)]
        for factor in channel.factors:
            law = [before * step for before in law for step in mixed(factor, shares, number)]
        return law
    law = [number(0)] * channel.shape[1]
    for x, share in shares.items():
        law = [before + number(share) * number(added) for before, added in zip(law, channel.row(x), strict=True)]
    return law


def _law_of_codewords(mechanism: dither.UnitVector, vector: NDArray, bits: int) -> dict[bytes, Fraction]:
    """For every short seed and part: a coin between the direction and its opposite, then the two levels."""
    direction, length = whole_vectors(np.reshape(vector, (1, -1)))
    lower, fraction, digits = split(length, 1, bits)
    plus = Fraction(int(fraction[0]), 1 << digits) + int(lower[0])
    law, outputs = mechanism.law, mechanism.law.outputs
    found: dict[bytes, Fraction] = {}
    for seed in range(1 << bits):
        rows = [Fraction(1, 1 << bits)]
        for own in seeds_of_parts(np.array([seed], dtype=np.uint64), mechanism.number):
            ahead, behind = (set(plain_favoured(mechanism, sign * direction[0], own)) for sign in (1.0, -1.0))
            row = [
                (plus * (law.high if y in ahead else law.low) + (1 - plus) * (law.high if y in behind else law.low))
                / law.total
                for y in range(outputs)
            ]
            rows = [before * cell for before in rows for cell in row]
        reports = np.empty(len(rows), dtype=mechanism.dtype)
        codewords = np.stack(np.unravel_index(np.arange(len(rows)), (outputs,) * mechanism.number), axis=1)
        reports["seed"], reports["value"] = seed, codewords if mechanism.number > 1 else codewords[:, 0]
        found |= dict(zip(as_bytes(reports), rows, strict=True))
    return found


def plain_favoured(mechanism: dither.UnitVector, vector: NDArray, seed: Any) -> list[int]:
    """The w codewords with the largest inner product, from the codewords themselves; of equal ones by row."""
    book, rows = mechanism.book, range(mechanism.book.size)
    entries = [int(entry) for entry in vector]
    if isinstance(book, Rotated):  # the nudge against ties
        bits = with_numpy._hashed(np.array([seed], dtype=np.uint64), book.size)[0, : book.d]
        entries = [entry + int(nudge) for entry, nudge in zip(entries, with_numpy._nudges(bits), strict=True)]
    products = [sum(a * b for a, b in zip(book.row(seed, row).tolist(), entries, strict=True)) for row in rows]
    best = sorted(rows, key=lambda row: (-abs(products[row]), row))[: mechanism.law.favoured]
    return [row if products[row] >= 0 else row + book.size for row in best]


def short_codebook(mechanism: dither.UnitVector, limit: int) -> Mechanism | None:
    """A few codewords, of which two are favoured, and weights that reject some words."""
    size = 1 << (mechanism.d - 1).bit_length() if isinstance(mechanism.book, Rotated) else 4
    for rows in (size, size // 2):
        favoured = max(1, min(2, rows // 2))
        if rows < mechanism.d and isinstance(mechanism.book, Rotated):
            continue
        for high in range(7, 1, -1):
            total = favoured * high + 2 * rows - favoured
            if total <= limit and limit % total:
                weights = (high, 1, favoured, 2 * rows)
                return replace(mechanism, epsilon=mechanism.number * log_above(Fraction(high)), weights=weights)
    return None


def _law_of_branches(mechanism: Any, value: float, bits: int) -> dict[bytes, Fraction]:
    """Each branch rounds to its own lattice."""
    law: list[Fraction] = []
    for odds, window in mechanism.branches:
        own = [Fraction(0)] * window.law.outputs
        for row, share in _rounded_number(value, window.steps, bits).items():
            own = [before + odds * share * added for before, added in zip(own, window.law.row(row), strict=True)]
        law += own
    return dict(zip(as_bytes(mechanism.outputs()), law, strict=True))


def _law_of_groups(mechanism: Ranges, record: Any, tape: EveryTape) -> dict[bytes, Fraction]:
    """A group by its share, the record's cell in its grid, and the law of its oracle; a cell may be a number."""
    law: dict[bytes, Fraction] = {}
    total = sum(asked.share for asked in mechanism.groups)
    width = mechanism.dtype[-1].itemsize
    for group, asked in enumerate(mechanism.groups):
        grid, part = asked.grid, mechanism.oracle(group)
        cell = 0
        for attribute, cuts in zip(grid.attributes, grid.cuts, strict=True):
            cell = cell * (len(cuts) - 1) + sum(int(record[attribute]) >= cut for cut in cuts[1:-1])
        value = (2 * cell + 1) / grid.size - 1 if isinstance(part.reading.domain, UnitInterval) else cell
        tag = bytes([group]) if len(mechanism.groups) > 1 else b""
        for report, chance in _law(part, value, tape).items():
            law[tag + report.ljust(width, b"\0")] = Fraction(asked.share, total) * chance
    return law


def rounding(mechanism: Mechanism, value: Any, bits: int = 64) -> dict[int, Fraction]:
    """Which rows of the channel a value becomes, and how often."""
    if isinstance(mechanism.reading, MultiAttribute):
        return _rounded_record(mechanism.reading, value, bits)
    if isinstance(mechanism, Ranges | dither.HIO):
        return {int(np.ravel_multi_index(tuple(int(each) for each in value), mechanism.shape)): Fraction(1)}  # type: ignore
    if isinstance(mechanism.reading.domain, Records):
        return _rounded_corner(mechanism, value, bits)
    if isinstance(mechanism.reading, Pooled):
        return _rounded_choice(mechanism.reading, value, bits)
    if isinstance(mechanism.reading.domain, Sparse):
        listed = signs_of(mechanism.reading.domain.d, mechanism.reading.domain.s)
        vector = {key: number for key, number in zip(*value, strict=True) if key != EMPTY}
        return {listed.index(dict(signs)): share for signs, share in as_signs(mechanism, vector, bits).items()}
    if not isinstance(mechanism.reading.domain, UnitInterval):
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


def _rounded_record(dimensions: MultiAttribute, record: Any, bits: int) -> dict[int, Fraction]:
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
    if isinstance(mechanism, dither.UnitVector):
        return short_codebook(mechanism, limit) if mechanism.d < 8 else None
    if isinstance(mechanism, dither.Histogram):
        entry = _short(mechanism.entry, limit)
        return entry and replace(mechanism, weights=entry.weights, delta=0.0)
    if isinstance(mechanism, dither.Personalised | Ranges):
        parts = [_short(part, limit) for part in mechanism.reading.parts]
        weights = tuple(part.weights for part in parts if part)
        return replace(mechanism, weights=weights) if all(parts) else None  # type: ignore[type-var]
    if isinstance(mechanism, dither.Hybrid):
        return _short_hybrid(mechanism, limit)
    if isinstance(mechanism, Memoized):
        weights = (5, 2, 1, 2, 1, 4) if isinstance(mechanism, dither.LUnary) else (3, 1, 4, 1)
        loose = replace(mechanism, epsilon=16.0, first=15.0, weights=weights)
        return replace(loose, epsilon=loose.guarantee.epsilon, first=loose.first_report.epsilon)
    if isinstance(mechanism.reading, MultiAttribute):
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


def _short_law(mechanism: Mechanism, limit: int, rejecting: bool = True) -> Mechanism | None:
    if isinstance(mechanism.channel(), AdditiveChannel):
        table = AdditiveChannel((9, 7, 4, 2, 1), steps=2, reach=2)
        return replace(mechanism, epsilon=log_above(table.ratio()), weights=(*table.weights, 2, 2, 1))  # type: ignore
    law, ratio = mechanism.channel(), exp_below(mechanism.epsilon)
    law = law.component if isinstance(law, PublicMixture) else law
    law = law.law if isinstance(law, HashedChannel) else law
    if isinstance(law, Repeated):  # its coordinates are alike
        law, ratio = law.factors[0], root_below(ratio, law.asked)
    assert isinstance(law, TwoLevel)
    assert mechanism.weights is not None
    lattice = tuple(min(size, most) for size, most in zip(mechanism.weights[2:], (3, 5), strict=False))
    favoured, outputs = (lattice[0], sum(lattice)) if lattice else (law.favoured, law.outputs)
    for low in range(floor(limit / (favoured * ratio + outputs - favoured)) + 1, 0, -1):
        for high in (floor(low * ratio), floor(low * ratio) - 1):
            total = favoured * high + (outputs - favoured) * low
            if (
                high > low and total <= limit and bool(limit % total) == rejecting
            ):  # some words are rejected, or that goes untested
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
    if isinstance(mechanism, dither.BallGaussian):
        return
    if isinstance(mechanism.reading, MultiAttribute):
        check_records(mechanism)
        return
    if isinstance(mechanism, Ranges):
        check_collected(mechanism)
        return
    if component_of(mechanism) is not None:
        # What shared functions do to estimates is tested with their reading; hits are those of any function.
        check_hits(replace(mechanism, cohorts=None))  # type: ignore[type-var]
        return
    if isinstance(mechanism, dither.LHash):
        return  # LocalHash's own tests say it
    if isinstance(mechanism.reading, KeyValues):
        check_outcomes(mechanism)
        return
    if isinstance(mechanism, dither.LocalHash | dither.HIO):
        return  # shared and private hash functions have their own exact tests
    if isinstance(mechanism, dither.UnitVector):
        check_directions(mechanism)
        return
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


def check_directions(mechanism: dither.UnitVector, seeds: int = 400, alarm: float = 1e-8) -> None:
    """A report decodes to its codeword over kappa; over many seeds, the exact means given each are right.

    Given a seed the mean of a report follows from the sum of its favoured codewords, and the mean square of its entries
    from the squares: both are averaged over seeds, and compared with the reading within their own standard errors.
    """
    book, law, reading, d = mechanism.book, mechanism.law, mechanism.reading, mechanism.d
    reports = mechanism.randomize(many(mechanism.inputs()[0], 3), seed=1)
    for report in reports:
        own = zip(seeds_of_parts(report["seed"].reshape(1), mechanism.number), np.ravel(report["value"]), strict=True)
        rows = [book.row(seed, codeword) for seed, codeword in own]
        score = np.mean(rows, axis=0) / (book.length * reading.products.kappa)
        np.testing.assert_allclose(mechanism.estimate(mechanism.tally(report)).value, score, rtol=1e-12)
    generator = np.random.default_rng(8)
    for vector in (np.eye(d)[0], np.ones(d) / d**0.5, mechanism.reading.domain.points(2 * d + 1)[-1]):
        direction, _ = whole_vectors(vector[None])
        rest = generator.standard_normal(d)
        rest -= rest @ vector * vector
        across = rest / np.linalg.norm(rest)
        first, second = [], []
        for seed in generator.integers(0, 1 << 63, seeds).astype(np.uint64):
            places = np.arange(law.favoured, dtype=np.uint64)
            one = np.repeat(direction, law.favoured, axis=0), np.full(law.favoured, seed)
            best = book.sums(one[1], book.choose(*one, places, law.favoured))
            every = book.sums(np.full(book.size, seed), np.arange(book.size))[1] * 2.0
            more, low = (law.high - law.low) / law.total, law.low / law.total
            first.append(more * best[0] * reading.scale)
            second.append((more * best[1] + low * every) * reading.scale**2 * 2.0**book.shift)
        mean = np.array(first)
        checked = [mean @ vector - 1, mean @ across]
        stated = mechanism.moments(vector).variance[0] * mechanism.number + vector**2
        checked += [np.array(second)[:, j] - stated[j] for j in (0, d - 1)]
        for found in checked:
            error = max(float(found.std()) / seeds**0.5, 2e-4)
            assert abs(found.mean()) < norm.isf(alarm) * error
    # At the expected counts of one vector for all, the stated error is that of the moments.
    vector, n = mechanism.inputs()[0], 10**6
    stated = mechanism.moments(vector)
    square = (stated.variance[0] * mechanism.number + vector**2) / reading.scale**2 / 2.0**book.shift
    counts = np.rint(n * mechanism.number * np.array([vector / reading.scale, square])).astype(np.int64)
    estimate = mechanism.estimate(dither.Tally(mechanism.fingerprint, n, counts))
    np.testing.assert_allclose(estimate.value, vector, atol=1e-6)
    np.testing.assert_allclose(estimate.stderr**2 * n, stated.variance[0], rtol=1e-3)


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
    assert isinstance(dimensions, MultiAttribute)
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
        if isinstance(dimensions, MultiAttribute) and dimensions.domain.numeric:
            np.testing.assert_allclose(mechanism.moments(inputs).variance[:, j], variance[:, 0], rtol=1e-9)
        spread = shares @ truth**2 - (shares @ truth) ** 2
        true = (shares @ variance + (1 - float(asked)) * spread) / float(asked)
        value, stderr = (np.atleast_1d(_dimension(population, j, name)) for name in ("value", "stderr"))
        np.testing.assert_allclose(value, shares @ truth, atol=1e-8)
        stated = stderr**2 * 10**13
        assert (stated >= true * (1 - 1e-6)).all()
        assert np.allclose(stated, true, rtol=1e-6) or type(part).__name__ == "Duchi"


def check_collected(mechanism: Ranges) -> None:
    """Grid by grid, by enumeration of all reports about it: unbiased frequencies, with the stated variance of a cell.

    What is made of the grids afterwards is not linear, and has tests of its own.
    """
    channel = mechanism.channel()
    if max(channel.shape) > 1024:
        return
    outputs, inputs, law = mechanism.outputs(), mechanism.inputs(), channel.matrix()
    total = sum(asked.share for asked in mechanism.groups)
    collected = [mechanism.collected(mechanism.tally(report)) for report in outputs]
    for group, asked in enumerate(mechanism.groups):
        about = np.array([each[group].n == 1 for each in collected])
        assert all(sum(row) == Fraction(asked.share, total) for row in law[:, about])
        found = [each[group] for each in collected if each[group].n]
        if found[0].value is None:
            continue
        given = (law[:, about] / Fraction(asked.share, total)).astype(float)
        scores = np.array([np.asarray(each.value).ravel() for each in found])
        own = asked.grid.cells(inputs)[:, None] == np.arange(asked.grid.size)
        np.testing.assert_allclose(given @ scores, own, atol=1e-9)
        variance = given @ scores**2 - (given @ scores) ** 2
        np.testing.assert_allclose(variance[~own], found[0].variance, rtol=1e-9)


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
        expected = np.array(mixed(channel, rounding(mechanism, value), float)) * len(reports)
        found = Counter(outputs[report] for report in as_bytes(np.asarray(reports)))
        counts = np.array([found[i] for i in range(len(expected))])
        keep = expected >= 5
        pooled = np.append(expected[keep], expected[~keep].sum()), np.append(counts[keep], counts[~keep].sum())
        statistic = sum((c - e) ** 2 / e for e, c in zip(*pooled, strict=True) if e > 0)
        cells = sum(e > 0 for e in pooled[0])
        assert statistic < chi2.isf(alarm, cells - 1)


def check_coverage(mechanism: Mechanism, values: NDArray, *, collections: int, seed: int) -> None:
    """95% intervals cover 94% to 96% (the normal approximation is allowed a point), false alarm 2e-8.

    One number of every simulated collection is looked at, so that the collections are independent. Answers to queries
    have a part that no noise explains, and tests of their own.
    """
    if isinstance(mechanism, Ranges | dither.HIO):
        return
    truth = _truth(mechanism, values)
    reports = mechanism.randomize(np.tile(values, (collections,) + (1,) * (values.ndim - 1)), seed=seed)
    covered = 0
    for i, part in enumerate(np.split(reports, collections)):
        low, high = _ends(mechanism.estimate(mechanism.tally(part)))
        v = i % len(truth)
        covered += bool(low[v] <= truth[v] <= high[v])
    assert binom.ppf(1e-8, collections, 0.94) <= covered <= binom.isf(1e-8, collections, 0.96)


def _truth(mechanism: Mechanism, values: NDArray) -> NDArray:
    if isinstance(mechanism.reading, MultiAttribute):
        parts = [mechanism.reading.part(j) for j in range(mechanism.reading.d)]
        columns = [values[:, j] for j in range(len(parts))]
        own = [
            column if isinstance(part.reading.domain, UnitInterval) else column.astype(int)
            for part, column in zip(parts, columns, strict=True)
        ]
        return np.concatenate([_truth(part, column) for part, column in zip(parts, own, strict=True)])
    if isinstance(mechanism.reading, Pooled):
        return np.atleast_1d(values["value"].mean())
    if isinstance(mechanism.reading, KeyValues):
        mean = replace(mechanism.reading, about="mean").truth(values).mean(axis=0)
        presence = np.array([(values["key"] == key).any(axis=1).mean() for key in range(mechanism.reading.d)])
        if len(mechanism.reading.law.reads) == 1:
            return presence if mechanism.reading.about == "presence" else mean
        return np.concatenate([presence, mean, np.column_stack([presence - mean, presence + mean]).ravel() / 2])
    if isinstance(mechanism.reading.domain, UnitInterval | Records | Ball):
        return np.atleast_1d(values.mean(axis=0))
    return np.bincount(values, minlength=len(mechanism.inputs())) / len(values)


def _ends(estimate: Any) -> tuple[NDArray, NDArray]:
    """The ends of all intervals, one after the other."""
    if isinstance(estimate, dither.Estimate):
        parts = [estimate]
    elif "conditional_mean" in estimate:  # a ratio: it is known only where presence is
        parts = [estimate[name] for name in ("presence", "mean", "frequency")]
    else:
        parts = [estimate["all"]] if "all" in estimate else list(estimate.values())
    low, high = zip(*(part.interval(0.95) for part in parts), strict=True)
    return tuple(np.concatenate([np.ravel(end) for end in ends]) for ends in (low, high))  # type: ignore


def reports_are_distinct(mechanism: Mechanism) -> bool:
    """Whether `outputs` lists every report once."""
    listed = as_bytes(mechanism.outputs())
    return len(set(listed)) == len(listed) == mechanism.channel().shape[1]
