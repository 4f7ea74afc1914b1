"""The categorical mechanisms beyond the contract: golden numbers, optimal choices, and readings in closed form."""

from fractions import Fraction
from itertools import product
from math import exp, log

import numpy as np
import pytest

from dither import GRR, Hadamard, LocalHash, SubsetSelection, Unary
from dither import testing as checks
from dither.errors import ParameterError
from dither.mechanisms import subset
from dither.mechanisms.hadamard import code_at, walsh_hadamard
from dither.mechanisms.localhash import best_buckets
from dither.mechanisms.packing import digits
from dither.testing.tapes import ProbeTape
from marks import one_in


def rare(mechanism) -> float:
    """Var/N for a category that almost nobody holds (002 eq. 44)."""
    return float(mechanism.reading.variance(0.0))


def golden(value: float, printed: str) -> bool:
    """Whether a value rounds to the digits that are printed."""
    return f"{value:.{len(printed.partition('.')[2])}f}" == f"{float(printed):.{len(printed.partition('.')[2])}f}"


@pytest.mark.parametrize(("k", "printed"), [(2, ".92067"), (10, "3.6302"), (100, "34.109")])
def test_golden_grr(k, printed):
    assert golden(rare(GRR(k, 1.0, 1e-6)), printed)


def test_golden_symmetric_unary():
    assert golden(rare(Unary(10, 1.0, 1e-6, kind="symmetric")), "3.9177")


def test_golden_local_hash():
    mechanism = LocalHash(1000, 1.0, 1e-6)
    assert mechanism.g == 4
    assert golden(rare(mechanism), "3.6916")
    g = best_buckets(1.0, 1e-6)
    assert golden(g, "3.718299")
    real = (exp(1) + g - 1) ** 2 / ((g - 1) * (exp(1) + g * 1e-6 - 1) ** 2)
    assert golden(real, "3.6827")
    assert golden(rare(LocalHash(1000, 1.0)), "3.6917")  # GOLDEN, 004


def test_grr_is_002_equation_45():
    for k, epsilon, delta in product((2, 5, 100), (0.1, 1.0, 4.0), (0.0, 1e-6, 1e-2)):
        mechanism, e = GRR(k, epsilon, delta), exp(epsilon)
        assert float(mechanism.reading.p) == pytest.approx((e + (k - 1) * delta) / (e + k - 1), rel=1e-12)
        assert float(mechanism.reading.q) == pytest.approx((1 - delta) / (e + k - 1), rel=1e-12)


def test_unary_follows_002_equations_49_to_51():
    for epsilon, delta in product((0.1, 1.0, 4.0, 12.0), (0.0, 1e-6, 1e-2)):
        e = exp(epsilon)
        optimal = Unary(5, epsilon, delta).reading
        assert float(optimal.q) == pytest.approx(1 / (e + 1), rel=2**-10)
        symmetric = Unary(5, epsilon, delta, kind="symmetric").reading
        root = (e * (1 - delta) + delta) ** 0.5
        assert float(symmetric.q) == pytest.approx((root - 1) / (e - 1), rel=1e-6)
        assert float(symmetric.p + symmetric.q) == pytest.approx(1.0, abs=1e-6)
        for reading in (optimal, symmetric, Unary(5, epsilon, delta, q=0.3).reading):
            p, q = float(reading.p), float(reading.q)
            assert p * (1 - q) == pytest.approx(e * q * (1 - p) + delta, rel=1e-9)


def test_short_coins_cost_less_than_a_millionth_of_the_variance():
    for epsilon in np.geomspace(0.01, 16, 60):
        e = exp(epsilon)
        assert rare(Unary(3, epsilon)) <= 4 * e / (e - 1) ** 2 * (1 + 1e-6)


def test_unary_blanket_is_what_all_inputs_share():
    for k in (2, 3, 5):
        channel = Unary(k, 1.0).channel()
        assert channel.blanket().mass == sum(min(column) for column in channel.matrix().T)


@pytest.mark.parametrize("q", [0.0, 1.0, -0.1, 1.5, float("nan"), "0.5", 1])
def test_unary_refuses_a_q_that_is_no_probability(q):
    with pytest.raises(ParameterError):
        Unary(5, 1.0, q=q)


def test_unary_refuses_unknown_kinds():
    with pytest.raises(ParameterError, match="optimal, symmetric"):
        Unary(5, 1.0, kind="best")


def test_subset_size_is_the_best_of_all_sizes():
    for k, epsilon in product((2, 3, 4, 7, 10, 20, 50, 149), (0.05, 0.3, 1.0, 2.0, 4.3, 5.0)):
        sizes = {size: SubsetSelection(k, epsilon, size).reading.total_variance for size in range(1, k)}
        assert sizes[SubsetSelection(k, epsilon).size or 0] == min(sizes.values())


# The least and the most, around half (from there on what is left out is drawn), one byte and two.
SHAPES = [
    (2, 1),
    (3, 1),
    (3, 2),
    (4, 2),
    (4, 3),
    (5, 1),
    (5, 3),
    (5, 4),
    (8, 2),
    (8, 6),
    (9, 1),
    (9, 2),
    (9, 7),
    (9, 8),
]


@pytest.mark.parametrize(("k", "size"), one_in(2, SHAPES))
def test_subsets_of_every_kind_of_size_have_exactly_their_law(k, size):
    assert checks.check_sampler(SubsetSelection(k, 1.0, size))


@pytest.mark.wide
def test_subsets_drawn_wrong_are_noticed(monkeypatch):
    def caught(k: int, size: int) -> bool:
        try:
            checks.check_sampler(SubsetSelection(k, 1.0, size))
        except AssertionError:
            return True
        return False

    real = SubsetSelection._subset_with
    with monkeypatch.context() as patch:  # what is left out holds the value where the subset does
        patch.setattr(
            SubsetSelection, "_subset_with", lambda self, held, *rest: real(self, held ^ (self.size == 4), *rest)
        )
        assert not caught(5, 1)
        assert caught(5, 4)
    with monkeypatch.context() as patch:  # one category too few is drawn
        patch.setattr(SubsetSelection, "_drawn", property(lambda self: self.size - 1))
        assert caught(5, 2)
    with monkeypatch.context() as patch:  # the padding of what is left out is kept
        patch.setattr(SubsetSelection, "_fill", _fill_with_padding)
        assert caught(5, 4)
        assert not caught(8, 6)
    with monkeypatch.context() as patch:  # rows with rejected words are kept as they are
        patch.setattr(
            subset,
            "rejection_sampled",
            lambda place, tape, rows, width, lane: place(tape.words(lane, rows, width), slice(None))[0],
        )
        assert caught(4, 1)
        assert not caught(5, 1)  # four others share the words evenly, and nothing is rejected


def _fill_with_padding(self, reports, values, tape, rows):
    inside = subset.sides(self.law, tape, rows)
    subset.as_bytes(reports)[:] = ~self._subset_with(~inside, values, tape, rows)


def test_words_too_short_for_a_category_are_refused():
    with pytest.raises(ParameterError, match="too short"):
        SubsetSelection(18, 1.0).drawn(np.zeros(2, dtype=int), ProbeTape(8))


@pytest.mark.parametrize(
    ("k", "size"), [(2, 1), (9, 8), (37, 10), (37, 30), (300, None), (1 << 16, None), (1 << 16, 40_000)]
)
def test_subsets_do_not_depend_on_rows_beside_them_or_on_threads(monkeypatch, k, size):
    mechanism, users = SubsetSelection(k, 1.0, size), 20 if k > 1000 else 40_000
    values = np.arange(users) * 7 % k
    monkeypatch.setenv("DITHER_THREADS", "1")
    whole = np.asarray(mechanism.randomize(values, seed=5))
    assert mechanism.valid(whole).all()
    assert (np.asarray(mechanism.randomize(values[:13], seed=5)) == whole[:13]).all()
    monkeypatch.setenv("DITHER_THREADS", "3")
    assert (np.asarray(mechanism.randomize(values, seed=5)) == whole).all()


def test_no_other_mechanism_has_a_smaller_total_variance():
    for k, epsilon in product((2, 5, 20), (0.1, 1.0, 3.0)):
        best = SubsetSelection(k, epsilon).reading.total_variance
        for other in (GRR(k, epsilon), Unary(k, epsilon), LocalHash(k, epsilon), Hadamard(k, epsilon)):
            assert best <= other.reading.total_variance * (1 + 1e-9)  # type: ignore[attr-defined]


def test_the_coins_are_the_ones_that_are_certified():
    for mechanism in (Unary(5, 1.0), Unary(5, 4.0, kind="symmetric"), Unary(5, 1.0, 1e-3, q=0.123)):
        q = mechanism.reading.q
        assert sum(Fraction(digit, 2 ** (i + 1)) for i, digit in enumerate(digits(q))) == q
    # Found in review: with 4/7 the certificate read q = 4/7 while the coins read the binary digits 100 as 4 of 4.
    for weights in ((7, 3, 4, 7), (2**63, 2**63, 3, 7), (7, 3, 8, 8), (7, 3, 9, 8), (7, 3, 4), (7, 3, 1, 8, 1)):
        with pytest.raises(ParameterError):
            Unary(4, 3.0, weights=weights)


def test_weights_without_information_are_refused():
    with pytest.raises(ParameterError, match="no report would carry information"):
        GRR(4, 1.0, weights=(1, 1))
    with pytest.raises(ParameterError, match="no report would carry information"):
        Unary(4, 1.0, weights=(1, 1, 1, 2))
    with pytest.raises(ParameterError, match="at least 1e-12"):
        GRR(4, 1e-200)


def test_a_delta_that_is_not_needed_is_not_claimed():
    promise = GRR(10, 60.0, 1e-6).guarantee
    assert promise.delta == 0.0
    assert 44 < promise.epsilon < 45


@pytest.mark.wide
def test_buckets_are_the_best_of_all_integers():
    for k, epsilon, delta in product((2, 5, 20, 1000), (0.1, 0.5, 1.0, 2.0, 4.0), (0.0, 1e-26, 1e-6)):
        chosen = LocalHash(k, epsilon, delta).reading.total_variance  # type: ignore[attr-defined]
        every = (LocalHash(k, epsilon, delta, g).reading.total_variance for g in range(2, 80))  # type: ignore
        assert chosen <= min(every) * (1 + 1e-9)


def test_best_buckets_do_not_cancel():
    assert best_buckets(1.0, 1e-26) == pytest.approx(exp(1) + 1, rel=1e-12)
    assert best_buckets(1.0, 0.0) == pytest.approx(exp(1) + 1, rel=1e-12)
    assert best_buckets(1.0, 0.2) == float("inf")


def test_local_hash_with_ideal_hash_functions():
    # Over all functions from k categories to g buckets: the true category is supported with p, any other with 1/g.
    k, mechanism = 3, LocalHash(3, 1.0, g=3)
    p, law = mechanism.reading.p, mechanism.law  # type: ignore[attr-defined]
    functions = list(product(range(3), repeat=k))
    for x, v in product(range(k), repeat=2):
        support = Fraction(0)
        for function in functions:
            support += Fraction(law.high if function[x] == function[v] else law.low, law.total)
        assert support / len(functions) == (p if x == v else Fraction(1, 3))


def test_hadamard_codes_are_a_bijection_on_each_half():
    for row in range(1, 32):
        index = np.arange(16, dtype=np.uint64)
        rows = np.full(16, row, dtype=np.uint64)
        halves = [code_at(rows, index, np.full(16, odd)).tolist() for odd in (False, True)]
        assert sorted(halves[0] + halves[1]) == list(range(32))
        assert all((row & code).bit_count() % 2 == odd for odd, half in enumerate(halves) for code in half)


def test_walsh_hadamard_is_the_matrix():
    counts = np.random.default_rng(1).integers(0, 1000, 64)
    signs = np.array([[(-1) ** (r & j).bit_count() for j in range(64)] for r in range(64)])
    assert (walsh_hadamard(counts) == signs @ counts).all()
    assert (walsh_hadamard(walsh_hadamard(counts)) == 64 * counts).all()


@pytest.mark.parametrize("k", [255, 256, 257, 65535, 65536, 65537, 70_000])
def test_reports_are_as_small_as_can_be(k):
    assert GRR(k, 1.0).dtype.itemsize == (1 if k <= 256 else 2 if k <= 65536 else 4)
    assert Unary(k, 1.0).dtype.itemsize == -(-k // 8)


@pytest.mark.parametrize("k", [1000, 1 << 32, 1 << 40])
def test_many_categories(k):
    mechanism = GRR(k, 2.0)
    reports = mechanism.randomize(np.array([0, k - 1, k // 2]), seed=1)
    assert mechanism.valid(reports).all()
    assert mechanism.epsilon - mechanism.guarantee.epsilon <= 1e-9
    if k > 1000:
        with pytest.raises(ParameterError, match="does not fit"):
            mechanism.tally(reports)


@pytest.mark.parametrize("k", [7, 8, 9, 63, 64, 65, 1000])
def test_the_true_bit_lands_where_it_belongs(k):
    # With epsilon 40 a one outside the true bit has probability e^-40 and the true bit comes up in most reports.
    mechanism = Unary(k, 40.0)
    reports = mechanism.randomize(np.repeat([0, k // 2, k - 1], 100), seed=1)
    counts = mechanism.tally(reports).counts
    assert set(np.flatnonzero(counts)) == {0, k // 2, k - 1}


def test_epsilon_is_the_logarithm_of_the_integers():
    for mechanism in (GRR(10, 1.5), LocalHash(10, 1.5), SubsetSelection(10, 1.5), Hadamard(10, 1.5)):
        assert mechanism.weights is not None
        assert mechanism.guarantee.epsilon == pytest.approx(log(Fraction(*mechanism.weights)), rel=1e-15)


def test_standard_errors_are_the_formula():
    for mechanism in (GRR(5, 1.0), Unary(5, 1.0), LocalHash(5, 1.0), SubsetSelection(5, 1.0), Hadamard(5, 1.0)):
        tally = mechanism.tally(mechanism.randomize(np.zeros(500, dtype=int), seed=1))
        estimate = mechanism.estimate(tally)
        p, q = float(mechanism.reading.p), float(mechanism.reading.q)  # type: ignore[attr-defined]
        f = np.minimum(np.maximum(estimate.value, 0), 1)
        expected = np.sqrt((f * p * (1 - p) + (1 - f) * q * (1 - q)) / 500) / (p - q)
        np.testing.assert_allclose(estimate.stderr, expected, rtol=1e-12)


def test_forged_fields_one_by_one():
    shared = LocalHash(30, 1.0, g=4, cohorts=9)
    reports = np.asarray(shared.randomize(np.arange(30), seed=1)).copy()
    for field, value in (("cohort", 9), ("value", 4)):
        forged = reports.copy()
        forged[field][3] = value
        assert shared.valid(forged).tolist() == [row != 3 for row in range(30)]
    subset = SubsetSelection(16, 1.0, size=4)
    for size in (0, 3, 5, 16):
        forged = np.zeros(1, dtype=subset.dtype)
        forged.view(np.uint8)[:] = np.packbits(np.arange(16) < size, bitorder="little")
        assert not subset.valid(forged)[0]


def test_hadamard_has_a_row_for_every_category_beside_the_constant_one():
    for k, codes in ((2, 4), (3, 4), (4, 8), (7, 8), (8, 16), (1000, 1024), (1024, 2048)):
        assert Hadamard(k, 1.0).codes == codes


def test_hash_seeds_use_all_their_bits():
    seeds = LocalHash(10, 1.0).randomize(np.zeros(200, dtype=int), seed=1)["seed"]
    assert np.bitwise_or.reduce(np.asarray(seeds)) == np.uint64(2**64 - 1)
    assert len(np.unique(np.asarray(seeds))) == 200
