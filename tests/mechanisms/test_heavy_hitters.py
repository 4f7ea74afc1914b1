"""Heavy hitters: what the contract suite cannot know. Levels, lists, shares of given words, and nobody's text."""

import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import dither
from dither.core.tally import Tally
from dither.core.words import Words
from dither.core.workload import Workload
from dither.errors import MissingExtraError, ParameterError
from dither.mechanisms import heavy_hitters
from dither.mechanisms.heavy_hitters import HeavyHitters, first_length, planned_buckets, planned_levels
from dither.privacy.auditing import audit

SMALL = HeavyHitters(4, 6, 3.0, lengths=(2, 4, 6), functions=(2, 2, 4), buckets=400)
LAW = {
    b"\1": 0.3,
    b"\2\3": 0.2,
    b"\4\4\1": 0.15,
    b"\1\2\3\4": 0.1,
    b"\3\3\3\3\3": 0.08,
    b"\2\1\2\1\2\1": 0.07,
    b"": 0.1,
}


def expected(mechanism: HeavyHitters, law: dict[bytes, float], n: int) -> Tally:
    """The tally that n users with these shares give on average, rounded to whole reports."""
    levels, space = mechanism.levels, mechanism.levels.space
    high, low = (float(each) for each in mechanism.law.probabilities)
    words, shares = np.array(list(law), dtype=f"S{mechanism.longest}"), np.array(list(law.values()))
    counts = []
    for function in range(len(levels.seeds)):
        bucket = levels.buckets(words, np.full(len(words), function)).astype(np.intp)
        held = np.bincount(bucket, weights=shares, minlength=space.size).astype(np.float64)
        counts.append(n / len(levels.seeds) * (low + (high - low) * space.through(held)))
    whole = np.rint(counts).astype(np.int64)
    return Tally(mechanism.fingerprint, int(whole.sum()), whole)


def people(law: dict[bytes, float], n: int) -> np.ndarray:
    """So many users with these shares."""
    counts = [round(share * n) for share in law.values()]
    return np.repeat(np.array(list(law), dtype="S6"), counts)


def test_without_noise_the_list_is_the_truth():
    found = SMALL.estimate(expected(SMALL, LAW, 10**9))
    assert found.words == tuple(word for word in LAW if word)
    np.testing.assert_allclose(found.value, [share for word, share in LAW.items() if word], atol=2e-4)


def test_words_are_counted_from_their_end_on():
    """A word of up to two codes has all reports, one of three or four those of two levels, longer ones of the last."""
    found = SMALL.estimate(expected(SMALL, LAW, 10**6))
    assert found.search is not None
    told = {each.word: each.n / found.n for each in found.search.listed}
    assert [round(told[word], 2) for word in LAW if word] == [1.0, 1.0, 0.75, 0.75, 0.5, 0.5]


def test_a_collection():
    values = people(LAW, 40_000)
    found = SMALL.estimate(SMALL.tally(SMALL.randomize(values, seed=1)))
    assert found.words == tuple(word for word in LAW if word)
    low, high = found.interval(0.95)
    for word, least, most in zip(found.words, low, high, strict=True):
        assert least <= LAW[word] <= most
    assert found.stated_share < found.value.min()
    assert "significantly above" in found.explain()


def test_intervals_are_for_all_at_once_already():
    found = SMALL.estimate(expected(SMALL, LAW, 10**6))
    for own, same in zip(found.interval(0.9), found.interval(0.9, simultaneous=True), strict=True):
        assert (own == same).all()
    narrow, wide = found.interval(0.5), found.interval(0.999)
    assert (wide.low <= narrow.low).all()
    assert (wide.high >= narrow.high).all()


def test_shares_of_given_words():
    found = SMALL.estimate(expected(SMALL, LAW, 10**9))
    asked = [b"\2\1\2\1\2\1", b"\4", b"\1\2\3\4", b""]
    shares = found.share_of(asked)
    np.testing.assert_allclose(shares.value, [0.07, 0.0, 0.1, 0.1], atol=1e-3)
    assert shares.stderr[0] > shares.stderr[1]
    for wrong in ([], [b"\5"], [7]):
        with pytest.raises((ParameterError, dither.DitherError)):
            found.share_of(wrong)


def test_known_words_need_less_evidence():
    """Of a word at four standard errors: it is on most lists where it is known, and on few where it is not."""
    mechanism = HeavyHitters(4, 6, 3.0, lengths=(2, 4, 6), functions=(2, 2, 4), buckets=5000)
    word = b"\1\2\3\4\1\2"
    values = people({b"": 0.982, word: 0.018}, 40_000)
    tallies = [mechanism.tally(mechanism.randomize(values, seed=seed)) for seed in range(12)]
    found = [word in mechanism.estimate(tally).words for tally in tallies]
    known = [word in mechanism.estimate(tally, mechanism.search(known=[word, b"\1"])).words for tally in tallies]
    assert sum(known) >= sum(found) + 3
    assert all(after or not before for before, after in zip(found, known, strict=True))


def test_a_stated_share_keeps_rarer_words_off_the_list():
    tally = expected(SMALL, LAW, 10**8)
    found = SMALL.estimate(tally, SMALL.search(above=0.12))
    assert found.words == (b"\1", b"\2\3", b"\4\4\1")
    assert found.stated_share == 0.12
    assert SMALL.estimate(tally, SMALL.search(count=2)).words == (b"\1", b"\2\3")


def test_what_shares_a_bucket_with_a_frequent_word_is_not_listed():
    """With 57 buckets one word in five shares one with a frequent one, under some of twelve functions."""
    crowded = HeavyHitters(4, 4, 3.0, lengths=(2, 4), functions=(6, 6), buckets=57, q=7)
    law = {b"\1": 0.5, b"\2\3": 0.3, b"\1\2\3\4": 0.2}
    found = crowded.estimate(expected(crowded, law, 10**8))
    assert found.words[:3] == tuple(law)
    np.testing.assert_allclose(found.value[:3], list(law.values()), atol=0.02)


def test_frequent_long_words_make_no_short_ones():
    """At the first level the search has not come to them yet, and they fill buckets of all others."""
    mechanism = HeavyHitters(8, 6, 3.0, lengths=(2, 4, 6), functions=(5, 5, 5), buckets=300)
    law = {b"\1\2\3\4\5\6": 0.5, b"\6\5\4\3\2\1": 0.3, b"\1\2\1\2": 0.15, b"\7": 0.05}
    found = mechanism.estimate(expected(mechanism, law, 10**7))
    assert found.words[:4] == tuple(law)
    np.testing.assert_allclose(found.value[:4], list(law.values()), atol=0.01)
    assert found.value[4:].max(initial=0.0) < 0.01


def test_the_certificate_is_that_of_every_function():
    for mechanism in (SMALL, HeavyHitters(26, 10, 1.0), HeavyHitters(255, 8, 0.5)):
        assert mechanism.guarantee.established == "exact"
        assert 0 <= mechanism.epsilon - mechanism.guarantee.epsilon <= 1e-9
        assert mechanism.channel().ratio() == Fraction(mechanism.law.high, mechanism.law.low)


def test_the_audit_finds_nothing_above_the_certificate():
    """False alarm 1e-6."""
    found = audit(HeavyHitters(**HeavyHitters.examples[0]), 100_000, 1 - 1e-6, seed=3)
    assert found.passed
    assert found.fraction > 0.5


def test_long_words_report_as_short_ones_do():
    """A report has one size and one law, whatever the word is."""
    tally = SMALL.tally(SMALL.randomize(np.array([b"", b"\1", b"\1\2\3\4\1\2"] * 500, dtype="S6"), seed=1))
    assert tally.n == 1500
    assert SMALL.dtype.itemsize == 3


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"lengths": (4, 2, 6)}, "rise"),
        ({"lengths": (2, 4)}, "longest word, 6"),
        ({"lengths": ()}, "prefixes"),
        ({"lengths": 3}, "prefixes"),
        ({"functions": (2, 2)}, "for each length"),
        ({"functions": (2, 2, 0)}, "at least 1"),
        ({"symbols": 1}, "symbols"),
        ({"symbols": 256}, "symbols"),
        ({"longest": 0}, "longest"),
        ({"q": 6}, "q"),
        ({"buckets": 1}, "buckets"),
    ],
)
def test_parameters_without_meaning(changes, said):
    given = {"symbols": 4, "longest": 6, "epsilon": 1.0, "lengths": (2, 4, 6), "functions": (2, 2, 4), **changes}
    with pytest.raises(ParameterError, match=said):
        HeavyHitters(**given)


def test_levels_are_chosen_for_the_domain():
    for symbols, longest in ((26, 10), (255, 12), (10, 3), (2, 6)):
        lengths, functions = planned_levels(symbols, longest)
        assert lengths[0] == first_length(symbols, longest)
        assert lengths[-1] == longest
        assert list(lengths) == sorted(set(lengths))
        assert len(functions) == len(lengths)
    assert HeavyHitters(26, 10, 1.0).lengths == planned_levels(26, 10).lengths


def test_more_users_have_more_buckets():
    few, many = (planned_buckets(users, 4.0, 24) for users in (10**4, 10**8))
    assert few < many
    (offered,) = HeavyHitters.candidates(Workload(Words(26, 10), ("words",), 1.0, users=10**6))
    assert set(offered) == {"symbols", "longest", "lengths", "functions", "buckets"}
    assert not list(HeavyHitters.candidates(Workload(Words(26, 10), ("mean",), 1.0)))


def test_results_are_pickled_without_anybodys_text():
    found = SMALL.estimate(SMALL.tally(SMALL.randomize(people(LAW, 2000), seed=1)))
    again = pickle.loads(pickle.dumps(found))
    assert again.words == found.words
    assert (again.share_of([b"\1"]).value == found.share_of([b"\1"]).value).all()


def test_moments_of_a_list_are_refused():
    with pytest.raises(ParameterError, match="moments of their own"):
        SMALL.moments([b"\1"])


def test_no_scipy_no_list(monkeypatch):
    import sys

    tally = expected(SMALL, LAW, 10**6)
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    with pytest.raises(MissingExtraError, match="fast"):
        SMALL.estimate(tally)


def test_predicted_variance():
    reading = replace(SMALL.reading, count=4)
    alone = float(reading.support.variance(0.25))
    assert reading.worst_variance() == pytest.approx(alone)
    assert reading.worst_variance(0.5) == pytest.approx(alone + 0.5 * 0.25 * 0.75)
    (worth,) = SMALL.reading.worths()
    assert worth.least < 0 < 1 < worth.most


def test_most_candidates_bound_the_search(monkeypatch):
    monkeypatch.setattr(heavy_hitters, "MOST_CANDIDATES", 40)
    found = SMALL.estimate(expected(SMALL, LAW, 10**9))
    assert found.search is not None
    assert found.search.kept[:2] == (2, 2)
