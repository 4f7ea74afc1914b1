"""Longitudinal mechanisms: two draws, one kept; exact promises for one report and for any number of them."""

import json
import math
import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import comb, exp
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from dither.core.channel import Table, TwoLevel
from dither.core.draw import Tape
from dither.core.exact import exp_below, log_above
from dither.core.reports import Reports
from dither.errors import DitherError, DomainError, ParameterError, ReportError
from dither.mechanisms import longitudinal
from dither.mechanisms.grr import GRR
from dither.mechanisms.localhash import LocalHash
from dither.privacy import certify
from dither.testing.tapes import EveryTape, lanes_read

LGRR: Any = longitudinal.LGRR
LHash: Any = longitudinal.LHash
LUnary: Any = longitudinal.LUnary
CLASSES = (LGRR, LHash, LUnary)
EXAMPLES: list[Any] = [cls(**example) for cls in CLASSES for example in cls.examples]
every = pytest.mark.parametrize("mechanism", EXAMPLES, ids=repr)
SECRET = 987654321


# Small weights, so that every tape can be run ---------------------------------------------------------------------


def with_weights(cls: type, weights: tuple[int, ...], **parameters: Any) -> Any:
    """The mechanism with these integers, and just the budgets that they keep."""
    loose = cls(epsilon=16.0, first=15.0, weights=weights, **parameters)
    return replace(loose, epsilon=loose.guarantee.epsilon, first=loose.first_report.epsilon)


SHORT = [  # with the length of a word; some words are rejected
    (with_weights(LGRR, (3, 1, 4, 1), k=3), 4),
    (with_weights(LGRR, (9, 2, 3, 1), k=4), 5),
    (with_weights(LGRR, (3, 1, 5, 2), k=2), 5),
    (with_weights(LHash, (3, 1, 4, 1), k=4, g=3, cohorts=3), 4),
    (with_weights(LHash, (5, 2, 3, 1), k=5, g=2), 4),
    (with_weights(LUnary, (5, 2, 1, 4, 1, 8), k=3), 3),
    (with_weights(LUnary, (5, 3, 1, 4, 1, 8), k=2), 2),  # two words for p
    (with_weights(LUnary, (3, 1, 1, 4, 1, 4), k=2, kind="symmetric"), 2),
]
short = pytest.mark.parametrize(("mechanism", "bits"), SHORT, ids=str)

Law = dict[tuple[bytes, ...], Fraction]


def law_of(sample: Callable[[int, Tape], tuple[NDArray, ...]], bits: int) -> Law:
    """The exact law of what a sampler of so many rows gives: it is run over every tape."""
    lanes = lanes_read(sample, bits)  # type: ignore[arg-type]
    assert sum(lanes.values()) * bits <= 18
    tape = EveryTape(bits, lanes)
    made = sample(tape.rows, tape)
    rows, inverse = tape.odds()
    reports = zip(*(as_bytes(each[rows]) for each in made), strict=True)
    found: Law = {}
    for (report, odds), count in Counter(zip(reports, inverse.tolist(), strict=True)).items():
        found[report] = found.get(report, Fraction(0)) + Fraction(count, odds)
    return found


def as_bytes(reports: NDArray) -> list[bytes]:
    return np.ascontiguousarray(reports).view(f"V{reports.dtype.itemsize}").tolist()


def outputs_of(mechanism: Any, bits: int) -> list[bytes]:
    """Every report in the order of the channel's columns; of own hash functions, those with short seeds."""
    if getattr(mechanism, "cohorts", 0) is not None:
        return as_bytes(mechanism.outputs())
    reports: Any = np.empty(mechanism.g << bits, dtype=mechanism.dtype)
    reports["seed"], reports["value"] = np.divmod(np.arange(len(reports)), mechanism.g)
    return as_bytes(reports)


def row_of(mechanism: Any, x: int, bits: int) -> dict[bytes, Fraction]:
    """P(report | x) of a plain or longitudinal mechanism, from its channel."""
    channel = mechanism.channel()
    if getattr(mechanism, "cohorts", 0) is None:
        channel = replace(channel, tags=1 << bits)
    return dict(zip(outputs_of(mechanism, bits), channel.row(x), strict=True))


def check_sampler(mechanism: Any, bits: int) -> None:
    """Over all tapes one round has exactly the law of the channel; a permanent response that of `lifetime_channel`."""
    for x in range(mechanism.k):
        kept = law_of(lambda n, tape, x=x: (mechanism.kept.drawn(np.full(n, x), tape),), bits)
        assert {report: odds for (report,), odds in kept.items()} == row_of(mechanism.kept, x, bits)
        made = law_of(lambda n, tape, x=x: (mechanism.drawn(np.full(n, x), tape),), bits)
        assert {report: odds for (report,), odds in made.items()} == row_of(mechanism, x, bits)


@short
def test_sampler_over_all_tapes(mechanism: Any, bits: int):
    check_sampler(mechanism, bits)


def second_draw(mechanism: Any, bits: int) -> dict[bytes, dict[bytes, Fraction]]:
    """P(report | permanent response), over all tapes."""
    listed = np.array(outputs_of(mechanism, bits)).view(mechanism.dtype)
    found = {}
    for permanent in listed:
        law = law_of(lambda n, tape, b=permanent: (mechanism.said(np.repeat(b, n), tape),), bits)
        found[as_bytes(permanent[None])[0]] = {report: odds for (report,), odds in law.items()}
    return found


@short
def test_one_report_is_the_product_of_the_two_channels(mechanism: Any, bits: int):
    # The composed integers are worked out in closed form: here they are added up over all permanent responses.
    again = second_draw(mechanism, bits)
    for x in range(mechanism.k):
        expected: dict[bytes, Fraction] = {}
        for permanent, odds in row_of(mechanism.kept, x, bits).items():
            for report, then in again[permanent].items():
                expected[report] = expected.get(report, Fraction(0)) + odds * then
        assert expected == row_of(mechanism, x, bits)


# Two rounds -------------------------------------------------------------------------------------------------------

ROUNDS = [
    (with_weights(LGRR, (3, 1, 4, 1), k=3), 4),
    (with_weights(LGRR, (2, 1, 9, 1), k=4), 4),
    (with_weights(LHash, (2, 1, 5, 1), k=4, g=3, cohorts=3), 3),
    (with_weights(LUnary, (3, 1, 1, 2, 1, 4), k=2), 2),
]
two_rounds = pytest.mark.parametrize(("mechanism", "bits"), ROUNDS, ids=str)


def remembered(mechanism: Any, x: int, n: int, tape: Tape) -> tuple[NDArray, NDArray]:
    """Two rounds of a device that keeps its permanent response."""
    kept = mechanism.kept.drawn(np.full(n, x), tape)
    return mechanism.said(kept, tape.slots("one", 1)), mechanism.said(kept, tape.slots("two", 1))


def redrawn(mechanism: Any, x: int, n: int, tape: Tape) -> tuple[NDArray, NDArray]:
    """Two rounds of one that draws it anew: `randomize` called twice."""
    values = np.full(n, x)
    return mechanism.drawn(values, tape.slots("one", 1)), mechanism.drawn(values, tape.slots("two", 1))


def largest_ratio(laws: list[Law]) -> Fraction:
    reports = {report for law in laws for report in law}
    return max(one[report] / other[report] for report in reports for one, other in product(laws, repeat=2))


def keeps_for_ever(mechanism: Any, bits: int, device: Callable) -> bool:
    """Whether two reports of a device tell no more than the declared epsilon."""
    laws = [law_of(lambda n, tape, x=x: device(mechanism, x, n, tape), bits) for x in range(mechanism.k)]
    return largest_ratio(laws) <= mechanism.lifetime_channel().ratio()


@two_rounds
def test_two_rounds_have_the_law_of_a_kept_response(mechanism: Any, bits: int):
    again = second_draw(mechanism, bits)
    for x in range(mechanism.k):
        expected: Law = {}
        for kept, odds in row_of(mechanism.kept, x, bits).items():
            for (one, a), (two, b) in product(again[kept].items(), repeat=2):
                expected[one, two] = expected.get((one, two), Fraction(0)) + odds * a * b
        found = law_of(lambda n, tape, x=x: remembered(mechanism, x, n, tape), bits)
        assert found == {reports: odds for reports, odds in expected.items() if odds}


@pytest.mark.wide
@two_rounds
def test_redrawing_the_permanent_response_breaks_the_promise(mechanism: Any, bits: int):
    assert keeps_for_ever(mechanism, bits, remembered)
    if 2 * mechanism.first > mechanism.epsilon:  # n times `first`, and it is attained
        laws = [law_of(lambda n, tape, x=x: redrawn(mechanism, x, n, tape), bits) for x in range(mechanism.k)]
        assert largest_ratio(laws) == mechanism.channel().ratio() ** 2 > mechanism.lifetime_channel().ratio()
        assert not keeps_for_ever(mechanism, bits, redrawn)


@pytest.mark.parametrize(("k", "epsilon", "first"), [(2, 1.0, 0.7), (3, 2.0, 1.0), (4, 1.0, 0.9), (5, 4.0, 0.5)])
def test_any_number_of_rounds_stays_below_for_ever_and_comes_close(k: int, epsilon: float, first: float):
    mechanism = LGRR(k, epsilon, first)
    kept, again = mechanism.kept.channel().matrix(), mechanism._again.matrix()
    before = Fraction(1)
    for rounds in (1, 2, 3, 5, 8):
        worst = Fraction(1)
        for reports in combinations_with_replacement(range(k), rounds):
            given = [math.prod((again[b][y] for y in reports), start=Fraction(1)) for b in range(k)]
            law = [sum(a * b for a, b in zip(row, given, strict=True)) for row in kept]
            worst = max(worst, max(law) / min(law))
        assert before < worst < mechanism.lifetime_channel().ratio()
        before = worst
        if rounds == 1:
            assert worst == mechanism.channel().ratio()
    redrawn = mechanism.channel().ratio() ** 8
    assert redrawn > mechanism.lifetime_channel().ratio() or first * 8 <= epsilon
    # In the limit reports tell the permanent response, and all of it.
    unlikely = (again[1][0] / again[0][0]) ** 200
    law = [row[0] + unlikely * (1 - row[0]) for row in kept[:2]]
    assert law[0] / law[1] < mechanism.lifetime_channel().ratio()
    assert float(law[0] / law[1] / mechanism.lifetime_channel().ratio()) > 1 - 1e-6


def test_many_rounds_average_to_the_permanent_response():
    # A report favours the permanent response by 0.53, so that 300 of them miss it with probability below
    # 3 exp(-300 0.53^2 / 2), for 500 users below 1e-15.
    mechanism, users = LGRR(k=3, epsilon=2.0, first=1.0), 500
    values = np.arange(users) % 3
    kept = mechanism.permanent(values, seed=1)
    counts, fresh = np.zeros((users, 3), dtype=int), np.zeros((users, 3), dtype=int)
    for number in range(300):
        counts[np.arange(users), mechanism.instantaneous(kept, seed=100 + number)["value"]] += 1
        fresh[np.arange(users), mechanism.randomize(values, seed=100 + number)["value"]] += 1
    assert (counts.argmax(axis=1) == kept["value"]).all()
    assert 0.2 < (counts.argmax(axis=1) != values).mean() < 0.4  # what the permanent response keeps for itself
    assert (fresh.argmax(axis=1) == values).mean() > 0.98  # drawn anew at every round, reports give the value away


# Certificates -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cls", "parameters"),
    [
        (LGRR, {"k": 2}),
        (LGRR, {"k": 1000}),
        (LGRR, {"k": 1 << 32}),
        (LHash, {"k": 100}),
        (LHash, {"k": 100, "g": 16, "cohorts": 11}),
        (LUnary, {"k": 5}),
        (LUnary, {"k": 5, "kind": "symmetric"}),
    ],
    ids=str,
)
def test_both_certificates_within_1e_9_over_the_range(cls: Any, parameters: dict):
    for epsilon in (1e-6, 1e-3, 0.1, 1 / 3, 1.0, 2.7, 5.0, 10.0, 16.0):
        for share in (1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-9, 1 - 1e-15):
            mechanism = cls(epsilon=epsilon, first=epsilon * share, **parameters)
            assert 0 <= epsilon - mechanism.guarantee.epsilon <= 1e-9
            assert 0 <= mechanism.first - mechanism.first_report.epsilon <= 1e-9
            assert mechanism.guarantee.established == mechanism.first_report.established == "exact"
    for epsilon in (17.0, 40.0, 5000.0):
        mechanism = cls(epsilon=epsilon, first=epsilon * 0.9, **parameters)
        assert 16 < mechanism.guarantee.epsilon <= epsilon
        assert mechanism.first_report.epsilon <= mechanism.first


@every
def test_certificates_by_enumeration(mechanism: Any):
    for promise, plain in ((mechanism.guarantee, mechanism.kept), (mechanism.first_report, mechanism.sent)):
        channel = plain.channel()
        assert certify(plain) == promise
        channel = getattr(channel, "component", channel)
        table = Table.of([channel.row(x) for x in range(channel.shape[0])])
        assert table.ratio() == channel.ratio()
        assert promise.epsilon == log_above(Fraction(table.ratio())) <= plain.epsilon
    assert mechanism.first_report.epsilon < mechanism.guarantee.epsilon
    assert mechanism.lifetime_channel().ratio() <= exp_below(mechanism.epsilon)
    assert mechanism.channel().ratio() <= exp_below(mechanism.first)


@every
def test_integers_that_break_either_promise_are_refused(mechanism: Any):
    for place, up in ((0, True), (-2, isinstance(mechanism, LGRR | LHash))):
        weights = list(mechanism.weights)
        weights[place] += weights[place] // 100 * (1 if up else -1)
        with pytest.raises(ParameterError):
            replace(mechanism, weights=tuple(weights))
        weights = list(mechanism.weights)
        weights[place] += -1 if up else 1
        assert replace(mechanism, weights=tuple(weights)).fingerprint != mechanism.fingerprint


# Accuracy ---------------------------------------------------------------------------------------------------------

CELLS = [
    (k, forever, first) for k in (2, 5, 100) for forever, first in ((1.0, 0.5), (2.0, 1.0), (4.0, 1.0), (5.0, 4.5))
]
cells = pytest.mark.parametrize(("k", "forever", "first"), CELLS)


def published_variance(p1: float, q1: float, p2: float, q2: float) -> float:
    """Of one report about a category that nobody has: VAR_Long_Pure of multi-freq-ldpy 0.2.5 at f = 0."""
    share = q1 * p2 + (1 - q1) * q2
    return share * (1 - share) / ((p1 - q1) ** 2 * (p2 - q2) ** 2)


@cells
def test_l_osue_has_the_published_probabilities(k: int, forever: float, first: float):
    mechanism, a, r = LUnary(k, forever, first), exp(forever), exp(first)
    p1, q1, p2 = 1 / 2, 1 / (a + 1), (r * a - 1) / (r - a - r * a + 1) * -1
    kept, sent = mechanism.kept.reading, mechanism.reading
    assert float(kept.p) == pytest.approx(p1, rel=1e-3)  # short coins
    assert float(kept.q) == pytest.approx(q1, rel=1e-3)
    assert float(1 - mechanism._flip) == pytest.approx(p2, rel=1e-3)
    assert float(sent.variance(0.0)) == pytest.approx(published_variance(p1, q1, p2, 1 - p2), rel=1e-5)
    assert float(sent.variance(0.0)) == pytest.approx(4 * r / (r - 1) ** 2, rel=1e-5)  # as OUE in one go


@cells
def test_rappor_is_symmetric_twice(k: int, forever: float, first: float):
    mechanism, root = LUnary(k, forever, first, kind="symmetric"), exp(forever / 2)
    p1, target = root / (root + 1), exp(first / 2)
    p2 = (target / (target + 1) + p1 - 1) / (2 * p1 - 1)
    assert float(1 - mechanism._flip) == pytest.approx(p2, rel=1e-6)
    assert float(mechanism.reading.p + mechanism.reading.q) == pytest.approx(1, abs=1e-6)
    expected = published_variance(p1, 1 - p1, p2, 1 - p2)
    assert float(mechanism.reading.variance(0.0)) == pytest.approx(expected, rel=1e-5)


@cells
def test_l_grr_is_grr_and_the_published_one_is_not(k: int, forever: float, first: float):
    mechanism, a, r = LGRR(k, forever, first), exp(forever), exp(first)
    plain, c = GRR(k, first), (r * a - 1) / (a - r)
    p1, p2 = a / (a + k - 1), c / (c + k - 1)
    q1, q2 = (1 - p1) / (k - 1), (1 - p2) / (k - 1)
    # p2 as L_GRR_Client of multi-freq-ldpy 0.2.5 has it, after Arcolezi et al. (2022)
    printed = (q1 - r * p1) / (-p1 * r + k * q1 * r - q1 * r - p1 * (k - 1) + q1)
    assert p2 == pytest.approx(printed)
    assert float(mechanism.reading.p) == pytest.approx(float(plain.reading.p), rel=1e-8)
    assert mechanism.reading.total_variance == pytest.approx(plain.reading.total_variance, rel=1e-7)
    delivered = math.log((p1 * p2 + (k - 1) * q1 * q2) / (p1 * q2 + q1 * p2 + (k - 2) * q1 * q2))
    own, theirs = float(mechanism.reading.variance(0.0)), published_variance(p1, q1, p2, q2)
    if k == 2:
        assert delivered == pytest.approx(first)
        assert own == pytest.approx(theirs, rel=1e-7)
    else:
        assert delivered < first
        assert own < theirs


def test_what_the_published_second_draw_costs():
    """The figures in the module's essay and on the page."""

    def ratio(k: int, forever: float, first: float) -> tuple[float, float]:
        a, r = exp(forever), exp(first)
        c = (r * a - 1) / (a - r)
        p1, p2 = a / (a + k - 1), c / (c + k - 1)
        q1, q2 = (1 - p1) / (k - 1), (1 - p2) / (k - 1)
        kept = math.log((a * c + k - 1) / (a + c + k - 2))
        return kept, published_variance(p1, q1, p2, q2) / float(LGRR(k, forever, first).reading.variance(0.0))

    assert ratio(10, 2.0, 1.0) == pytest.approx((0.6994, 2.691), rel=1e-3)
    assert ratio(100, 2.0, 1.0) == pytest.approx((0.1656, 89.62), rel=1e-3)
    # LOLOHA at (2, 1) takes three buckets and keeps 0.948
    assert ratio(3, 2.0, 1.0)[0] == pytest.approx(0.948, rel=1e-3)


@pytest.mark.parametrize(("forever", "first"), [(1.0, 0.5), (2.0, 1.0), (4.0, 2.0), (5.0, 3.0)])
def test_l_olh_is_olh_at_first(forever: float, first: float):
    mechanism, plain = LHash(1000, forever, first), LocalHash(1000, first)
    assert mechanism.g == plain.g
    own, other = mechanism.moments([0]).variance, plain.moments([0]).variance
    np.testing.assert_allclose(own, other, rtol=1e-7)
    others = [LHash(1000, forever, first, g=g).reading.total_variance for g in range(2, 60)]
    assert mechanism.reading.total_variance == min(others)


@every
def test_estimates_are_unbiased_by_enumeration(mechanism: Any):
    if isinstance(mechanism, LHash):
        return  # LocalHash's reading, which has exact tests of its own
    decoded = np.array([mechanism.estimate(mechanism.tally(report)).value for report in mechanism.outputs()])
    law = mechanism.channel().matrix().astype(float)
    np.testing.assert_allclose(law @ decoded, np.eye(mechanism.k), atol=1e-9)
    spread = np.einsum("xy,xyv->xv", law, (decoded[None] - np.eye(mechanism.k)[:, None]) ** 2)
    np.testing.assert_allclose(spread, mechanism.moments(np.arange(mechanism.k)).variance, rtol=1e-9)


def exact_variance(mechanism: Any, own: bool, rounds: int) -> Fraction:
    """Of the average over rounds of one user's calibrated reports about a category: every number of hits, exactly."""
    kept, sent = mechanism.kept.reading, mechanism.sent.reading
    gap = (sent.p - sent.q) / (kept.p - kept.q)  # p2 - q2
    held = kept.p if own else kept.q
    miss = sent.q - kept.q * gap
    law = {hits: Fraction(0) for hits in range(rounds + 1)}
    for odds, hit in ((held, miss + gap), (1 - held, miss)):
        for hits in law:
            law[hits] += odds * comb(rounds, hits) * hit**hits * (1 - hit) ** (rounds - hits)
    scores = {hits: (Fraction(hits, rounds) - sent.q) / (sent.p - sent.q) for hits in law}
    assert sum(law[hits] * scores[hits] for hits in law) == int(own)
    return sum((law[hits] * (scores[hits] - int(own)) ** 2 for hits in law), Fraction(0))


@every
@pytest.mark.parametrize("rounds", [1, 2, 3, 7])
def test_the_variance_of_several_rounds_is_exact(mechanism: Any, rounds: int):
    if getattr(mechanism, "cohorts", None):
        with pytest.raises(ParameterError, match="cohorts"):
            mechanism.variance(0.5, rounds)
        return
    for own in (False, True):
        stated = float(mechanism.variance(float(own), rounds))
        assert stated == pytest.approx(float(exact_variance(mechanism, own, rounds)), rel=1e-9)
    limit = mechanism.variance(0.3, 10**9)
    np.testing.assert_allclose(limit, mechanism.kept.reading.variance(0.3), rtol=1e-6)
    assert limit < mechanism.variance(0.3, rounds) <= mechanism.reading.variance(0.3) * (1 + 1e-12)


def test_errors_of_several_rounds_are_as_stated():
    # 200 collections of 2,000 users in 5 rounds: estimates are all but normal, so that squared scores add up to a
    # chi-square; false alarm 8e-7 in all. Forgetting the shared noise would make it three times as large.
    mechanism, rounds, users, collections = LGRR(k=4, epsilon=2.0, first=1.5), 5, 2000, 200
    values = np.tile(np.repeat(np.arange(4), [1000, 600, 300, 100]), collections)
    kept = mechanism.permanent(values, seed=3)
    parts = np.array_split(np.arange(len(values)), collections)
    tallies: list[Any] = [0] * collections
    for number in range(rounds):
        reports = mechanism.instantaneous(kept, seed=50 + number)
        tallies = [tally + mechanism.tally(reports[part]) for tally, part in zip(tallies, parts, strict=True)]
    made = [mechanism.estimate(tally, rounds=rounds) for tally in tallies]
    naive = [mechanism.estimate(tally) for tally in tallies]
    truth = np.array([0.5, 0.3, 0.15, 0.05])
    for v in range(4):
        squares = sum(((each.value[v] - truth[v]) / each.stderr[v]) ** 2 for each in made)
        assert chi2.ppf(1e-7, collections) < squares < chi2.isf(1e-7, collections)
        assert sum(((each.value[v] - truth[v]) / each.stderr[v]) ** 2 for each in naive) > 1.9 * collections
    assert made[0].n == users * rounds
    assert "5 rounds of 2,000 users" in made[0].explain()


def test_rounds_that_do_not_fit_are_refused():
    mechanism = LGRR(k=3, epsilon=2.0, first=1.0)
    tally = mechanism.tally(mechanism.randomize([0, 1, 2], seed=1))
    assert mechanism.estimate(tally, rounds=1).stderr.tolist() == mechanism.estimate(tally).stderr.tolist()
    for rounds in (0, -1, 2, 1.0, True, None):
        with pytest.raises(ParameterError):
            mechanism.estimate(tally, rounds=rounds)  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        mechanism.estimate(tally, mechanism.kept.reading, rounds=3)
    shared = LHash(k=3, epsilon=2.0, first=1.0, cohorts=3)
    with pytest.raises(ParameterError, match="cohorts"):
        shared.estimate(shared.tally(shared.randomize([0, 1], seed=1)), rounds=2)


# The verbs of a device --------------------------------------------------------------------------------------------


@every
def test_one_round_is_both_draws(mechanism: Any):
    values = np.arange(5000) % mechanism.k
    kept = mechanism.permanent(values, seed=7)
    reports = mechanism.instantaneous(kept, seed=7)
    assert (reports == mechanism.randomize(values, seed=7)).all()
    assert (reports != kept).any()
    assert (mechanism.instantaneous(kept, seed=8) != reports).any()
    assert (mechanism.instantaneous(kept[:100], seed=7) == reports[:100]).all()
    assert mechanism.tally(reports).mechanism == mechanism.fingerprint
    if isinstance(mechanism, LHash):  # the function stays
        name = "seed" if mechanism.cohorts is None else "cohort"
        assert (reports[name] == kept[name]).all()


@every
def test_what_is_simulated_stays_simulated(mechanism: Any):
    kept, simulated = mechanism.permanent([0, 1]), mechanism.permanent([0, 1], seed=1)
    assert not kept.simulated
    assert simulated.simulated
    reports = mechanism.instantaneous(kept)
    assert not reports.simulated
    assert mechanism.estimate(mechanism.tally(reports)).guarantee == mechanism.guarantee
    for half in (mechanism.instantaneous(simulated), mechanism.instantaneous(kept, seed=1)):
        assert half.simulated
        assert mechanism.estimate(mechanism.tally(half)).guarantee.simulated


@every
def test_permanent_responses_are_kept_apart_from_reports(mechanism: Any):
    kept = mechanism.permanent([0, 1, 1], seed=1)
    with pytest.raises(ReportError, match="another mechanism"):
        mechanism.tally(kept)
    assert mechanism.kept.tally(kept).n == 3  # what infinitely many rounds would show
    other = replace(mechanism, epsilon=mechanism.epsilon * 1.01, weights=None)
    reports = mechanism.randomize([0, 1, 1], seed=1)
    for wrong in (reports, np.asarray(kept), [0, 1], other.permanent([0, 1], seed=1), None, SECRET):
        with pytest.raises(ReportError) as caught:
            mechanism.instantaneous(wrong)
        assert str(SECRET) not in str(caught.value)
    damaged = kept.copy()
    damaged.view(np.uint8).reshape(3, -1)[1] = 255
    with pytest.raises(ReportError, match="damaged"):
        mechanism.instantaneous(damaged)


@every
def test_a_device_may_store_its_response(mechanism: Any):
    kept = mechanism.permanent([0, 1, 1])
    for again in (pickle.loads(pickle.dumps(kept)), Reports.from_arrow(kept.to_arrow())):
        assert (mechanism.instantaneous(again, seed=1) == mechanism.instantaneous(kept, seed=1)).all()
    # Another `first` with the same permanent response keeps what was promised for ever.
    other = replace(mechanism, first=mechanism.first / 2, weights=None)
    if other.kept == mechanism.kept:
        assert len(other.instantaneous(kept)) == 3


@every
def test_nothing_and_single_values(mechanism: Any):
    assert len(mechanism.instantaneous(mechanism.permanent([]))) == 0
    one = mechanism.permanent(1)
    assert one.shape == mechanism.instantaneous(one[0]).shape == (1,)


@every
def test_stored_and_loaded_mechanisms_are_the_same(mechanism: Any):
    again = type(mechanism).from_dict(json.loads(json.dumps(mechanism.to_dict())))
    assert again == mechanism == pickle.loads(pickle.dumps(mechanism))
    assert (again.fingerprint, again.weights) == (mechanism.fingerprint, mechanism.weights)
    assert "weights" not in repr(mechanism)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize(
    "change",
    [
        {"first": None},
        {"first": 0},
        {"first": -1.0},
        {"first": 2.0},
        {"first": 2.5},
        {"first": float("nan")},
        {"first": float("inf")},
        {"first": "1"},
        {"first": True},
        {"first": 1e-13},
        {"epsilon": None},
        {"epsilon": 0.5},
        {"epsilon": float("nan")},
        {"k": 1},
        {"k": 2.5},
        {"k": True},
        {"k": 2**80},
        {"weights": (3, 1)},
        {"weights": (0, 1, 1, 2)},
        {"weights": (3, 1, 1, 1)},
        {"weights": (5, 2, 1, 4, 1, 7)},
        {"weights": (5, 2, 1, 4, 4, 8)},
        {"kind": "best"},
        {"g": 1},
        {"g": 1 << 20},
        {"cohorts": 0},
    ],
    ids=str,
)
def test_bad_parameters_are_refused(cls: Any, change: dict):
    good = {"k": 3, "epsilon": 2.0, "first": 1.0}
    if not set(change) <= set(cls(**good).to_dict()):
        return
    with pytest.raises(DitherError):
        cls(**{**good, **change})


def test_the_refusal_of_a_first_tells_what_it_is():
    with pytest.raises(ParameterError, match="below epsilon"):
        LGRR(k=3, epsilon=1.0, first=1.0)
    with pytest.raises(ParameterError, match="first is missing"):
        LGRR(k=3, epsilon=1.0, first=None)  # type: ignore[arg-type]


@every
@pytest.mark.parametrize("values", [[0, SECRET], [0.5, SECRET], ["0", str(SECRET)], [None, SECRET]], ids=str)
def test_bad_values_are_refused_and_not_quoted(mechanism: Any, values: list):
    with pytest.raises(DomainError) as caught:
        mechanism.permanent(values)
    error: BaseException | None = caught.value
    while error is not None:
        assert str(SECRET) not in str(error) + repr(error)
        error = error.__context__
    assert (mechanism.permanent(values, seed=1, invalid=1)[1] == mechanism.permanent([1, 1], seed=1)[1]).all()


# Mutants: each is a mistake that was made somewhere, or nearly ------------------------------------------------------

VICTIMS = pytest.mark.parametrize(("victim", "bits"), [SHORT[0], SHORT[3], SHORT[5]], ids=str)


def caught(check: Callable, *arguments: Any) -> bool:
    try:
        check(*arguments)
    except (AssertionError, DitherError):
        return True
    return False


@VICTIMS
def test_a_second_draw_left_out(monkeypatch: pytest.MonkeyPatch, victim: Any, bits: int):
    monkeypatch.setattr(type(victim), "_say", lambda self, reports, kept, tape, rows: reports.__setitem__(..., kept))
    assert caught(check_sampler, victim, bits)


@VICTIMS
def test_one_draw_for_both(monkeypatch: pytest.MonkeyPatch, victim: Any, bits: int):
    def fill(self, reports, values, tape, rows):
        kept = np.empty(len(values), dtype=self.dtype)
        self.kept._fill(kept, values, tape, rows)
        self._say(reports, kept, tape, rows)  # the same words again

    monkeypatch.setattr(type(victim), "_fill", fill)
    assert caught(check_sampler, victim, bits)


@VICTIMS
def test_a_second_draw_around_the_value(monkeypatch: pytest.MonkeyPatch, victim: Any, bits: int):
    # The instantaneous response must know nothing but the permanent one.
    def fill(self, reports, values, tape, rows):
        self.kept._fill(reports, values, tape.slots("instantaneous", 1), rows)

    monkeypatch.setattr(type(victim), "_fill", fill)
    assert caught(check_sampler, victim, bits)


def test_certificate_by_the_published_formula():
    # (A C + B D) / (A D + B C): larger than the true ratio for more than two outputs, so it would waste budget.
    mechanism = LGRR(k=5, epsilon=2.0, first=1.0)
    a, b, c, d = mechanism.weights
    assert Fraction(a * c + b * d, a * d + b * c) > exp_below(1.0) >= mechanism.channel().ratio()


def test_a_second_draw_fitted_for_two_outputs(monkeypatch: pytest.MonkeyPatch):
    def second(self, kept):
        a, r = kept.law.ratio(), exp_below(self.first)
        again = TwoLevel.fit(-log_above((a - r) / (r * a - 1)), favoured=1, outputs=kept.law.outputs)
        return again.high, again.low

    monkeypatch.setattr(LGRR, "_second", second)
    mutant = LGRR(k=5, epsilon=2.0, first=1.0)
    assert mutant.first - mutant.first_report.epsilon > 0.1  # the certificate of the whole report tells


def test_flips_of_ones_only(monkeypatch: pytest.MonkeyPatch):
    victim, bits = SHORT[5]

    def say(self, reports, kept, tape, rows):
        bytes_of = longitudinal.as_bytes
        flips = longitudinal.coins(self._flip, self.k, tape, rows)
        bytes_of(reports)[...] = bytes_of(kept) & ~flips

    monkeypatch.setattr(LUnary, "_say", say)
    assert caught(check_sampler, victim, bits)


def test_a_device_that_forgets_is_noticed():
    mechanism, bits = ROUNDS[0]
    assert keeps_for_ever(mechanism, bits, remembered)
    assert not keeps_for_ever(mechanism, bits, redrawn)
