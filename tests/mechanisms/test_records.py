"""Records beyond the contract: independent slots, error bars that know who was asked, the best m, and recipes."""

import functools
import json
import pickle
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from itertools import combinations, pairwise, product
from math import ceil, floor, prod
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

import dither
from dither import GRR, Duchi, Estimate, Gaussian, Piecewise, Sampled, SampledDuchi, Split
from dither import testing as checks
from dither.core import mechanism as mechanism_module
from dither.core.channel import hockey_stick
from dither.core.domains import UnitInterval
from dither.core.estimate import Estimates
from dither.core.exact import exp_below
from dither.errors import DitherError, DomainError, ParameterError, ReportError, TallyError
from dither.mechanisms import load, sampled
from dither.mechanisms.noise_tables import FINE, gaussian_bound, gaussian_scale, table_deviation, unstretched_table
from dither.mechanisms.spec import normal_spec
from dither.testing.tapes import EveryTape
from marks import wide

ALARM = 1e-9
MIXED = ("Unary(k=9)", "LocalHash(k=4, cohorts=3)", "SubsetSelection(k=9)", "GRR(k=5)", "Duchi", "Piecewise", "Hybrid")


def slots_of(mechanism, reports) -> list[np.ndarray]:
    """The bits of every slot, one row a user: bits that never change are left out."""
    field = np.ascontiguousarray(np.asarray(reports)[mechanism.dtype.names[-1]])
    flat = field.view(np.uint8).reshape(len(reports), mechanism.layout.m, -1)
    bits = np.unpackbits(flat, axis=2).astype(float)
    return [slot[:, slot.std(axis=0) > 0.02] for slot in bits.transpose(1, 0, 2)]


def correlations(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Of every column of one with every column of the other, in standard deviations under independence."""
    a, b = ((table - table.mean(axis=0)) / table.std(axis=0) for table in (one, other))
    return a.T @ b / len(a) ** 0.5


# Reports -------------------------------------------------------------------------------------------------------------


SHAPES = [
    Sampled("Piecewise", d=7, m=2, epsilon=1.0),
    Sampled("Piecewise", d=7, m=6, epsilon=1.0),
    Split(MIXED, d=7, epsilon=4.0),
    Sampled(MIXED, d=7, m=3, epsilon=4.0),
    Sampled("Histogram(base='Duchi', k=3)", d=4, m=2, epsilon=4.0),
    SampledDuchi(d=300, m=5, epsilon=4.0),
    Gaussian(1.0, delta=1e-6, d=3),
]
shapes = pytest.mark.parametrize("mechanism", SHAPES, ids=lambda mechanism: checks.label(mechanism)[:60])


def records(mechanism, users: int) -> np.ndarray:
    """Records of all kinds."""
    generator = np.random.default_rng(7)
    columns = []
    for j in range(mechanism.layout.d):
        points = mechanism.layout.part(j).inputs()
        columns.append(points[generator.integers(0, len(points), users)])
    return np.column_stack(columns)


@pytest.mark.wide
@shapes
@pytest.mark.parametrize("threads", ["1", wide("2"), wide("5")])
def test_reports_do_not_depend_on_threads_chunks_or_other_rows(mechanism, threads, monkeypatch):
    monkeypatch.setenv("DITHER_THREADS", "3")
    values = records(mechanism, 40_000)
    reports = np.asarray(mechanism.randomize(values, seed=3))
    monkeypatch.setenv("DITHER_THREADS", threads)
    monkeypatch.setattr(mechanism_module, "_CHUNK_BYTES", 1 << 13)
    again = np.asarray(mechanism.randomize(values, seed=3))
    assert (again == reports).all()
    assert (np.asarray(mechanism.randomize(values[:123], seed=3)) == reports[:123]).all()
    values[200:] = values[0]  # what others hold changes nothing
    assert (np.asarray(mechanism.randomize(values, seed=3))[:200] == reports[:200]).all()
    assert mechanism.tally(again) == mechanism.tally(reports)


def test_two_slots_of_one_value_have_the_product_law_exactly():
    for base, value in (("Duchi", 0.25), ("GRR(k=3)", 1)):
        mechanism, bits = checks.with_short_weights(Split(base, d=2, epsilon=2.0))
        assert mechanism is not None
        record = np.array([value, value])
        tape = EveryTape(bits, checks.lanes(mechanism, bits))
        reports = mechanism.drawn(checks.many(record, tape.rows), tape)["value"]
        rows, inverse = tape.odds()
        joint: dict[tuple[int, int], Fraction] = {}
        for (pair, odds), count in Counter(
            zip(map(tuple, reports[rows].tolist()), inverse.tolist(), strict=True)
        ).items():
            joint[pair] = joint.get(pair, Fraction(0)) + Fraction(count, odds)
        first, second = ({y: sum(p for pair, p in joint.items() if pair[s] == y) for y in range(3)} for s in (0, 1))
        assert first == second
        assert joint == {(a, b): first[a] * second[b] for a, b in joint}
        assert len(joint) == len([y for y in first.values() if y]) ** 2


def test_two_slots_of_one_value_have_the_product_law_in_production():
    mechanism = Split("GRR(k=4)", d=3, epsilon=1.5)
    reports = mechanism.randomize(np.full((60_000, 3), 2), seed=5)["value"]
    law = np.array(mechanism.part(0).channel().row(2), dtype=float)
    for a, b in ((0, 1), (1, 2), (0, 2)):
        found = np.bincount(4 * reports[:, a].astype(int) + reports[:, b], minlength=16)
        expected = 60_000 * np.outer(law, law).reshape(-1)
        assert ((found - expected) ** 2 / expected).sum() < chi2.isf(ALARM, 15)
    # A slot of one user and another slot of the next: words must not be shared across rows either.
    found = np.bincount(4 * reports[:-1, 2].astype(int) + reports[1:, 0], minlength=16)
    expected = 59_999 * np.outer(law, law).reshape(-1)
    assert ((found - expected) ** 2 / expected).sum() < chi2.isf(ALARM, 15)


@pytest.mark.parametrize("epsilon", [0.7, 7e-11, 14.0])
def test_mixed_bases_that_read_words_of_different_widths_stay_independent(epsilon):
    # At the tiny epsilon laws need two words. About 4,000 correlations of standard normals; 7 standard deviations have
    # 2.6e-12 each, false alarm about 1e-8.
    mechanism = Split(MIXED, d=7, epsilon=epsilon)
    law: Any = mechanism.part(3).channel()
    assert (law.total > 1 << 64) == (epsilon < 1e-9)
    values = checks.many([4, 2, 8, 3, 0.5, -0.3, 0.9], 50_000)
    slots = slots_of(mechanism, mechanism.randomize(values, seed=8))
    assert all(slot.shape[1] for slot in slots)
    pairs = 0
    for a, b in product(range(7), repeat=2):
        if a < b:
            assert np.abs(correlations(slots[a], slots[b])).max() < 7
        for lag in (1, 2, 7):  # a neighbour, also where a slot's row number meets that of another user's slot
            found = correlations(slots[a][lag:], slots[b][:-lag])
            assert np.abs(found).max() < 7
            pairs += found.size
    assert 1000 < pairs < 40_000


def test_sampled_slots_are_independent_of_the_choice_and_of_neighbours():
    mechanism = Sampled("GRR(k=4)", d=5, m=3, epsilon=1.5)
    reports = np.asarray(mechanism.randomize(np.full((60_000, 5), 1), seed=8))
    law = np.array(mechanism.part(0).channel().row(1), dtype=float)
    # The law of a slot is the same given any dimension: one chi-square for each slot, false alarm 3e-9.
    for s in range(3):
        dimension, value = reports["dimension"][:, s].astype(int), reports["value"][:, s]
        for j in np.unique(dimension):
            found = np.bincount(value[dimension == j], minlength=4)
            assert ((found - law * found.sum()) ** 2 / (law * found.sum())).sum() < chi2.isf(ALARM, 3)
    chosen = np.zeros((60_000, 5))
    np.put_along_axis(chosen, reports["dimension"].astype(np.intp), 1.0, axis=1)
    slots = slots_of(mechanism, reports)
    for slot in slots:
        assert np.abs(correlations(chosen, slot)).max() < 7
        assert np.abs(correlations(chosen[1:], slot[:-1])).max() < 7
    for a, b in pairwise(slots):
        assert np.abs(correlations(a, b)).max() < 7


def test_lists_columns_and_records_make_the_same_reports():
    mechanism = Sampled(["Duchi", "GRR(k=4)"], d=2, m=1, epsilon=1.0)
    table = np.array([[0.25, 3], [-1.0, 0], [0.0, 2]])
    reports = mechanism.randomize(table, seed=2)
    for form in (table.tolist(), table.astype(np.float32), {"x": table[:, 0], "c": table[:, 1].astype(int)}):
        assert (mechanism.randomize(form, seed=2) == reports).all()
    one = mechanism.randomize([0.25, 3], seed=2)
    assert one.shape == (1,)
    assert (np.asarray(one) == np.asarray(reports[:1])).all()


def test_one_dimension_is_that_mechanism():
    for mechanism in (
        Sampled("Duchi", d=1, epsilon=1.0),
        Split("Duchi", d=1, epsilon=1.0),
        SampledDuchi(d=1, epsilon=1.0),
    ):
        assert mechanism.guarantee == Duchi(1.0).guarantee
        assert mechanism.dtype.names == ("value",)
        reports = mechanism.randomize(np.linspace(-1, 0.5, 5000)[:, None], seed=1)
        tally = mechanism.tally(reports)
        alone = Duchi(1.0).estimate(mechanism.marginal(tally, 0))
        together = mechanism.estimate(tally)
        assert together.value.tolist() == [alone.value]
        assert together.stderr.tolist() == [alone.stderr]


def test_reports_can_be_looked_at():
    # Whoever prints a report at the prompt should see it, whatever its fields are.
    for mechanism in (GRR(3, 1.0), dither.Unary(3, 1.0), *SHAPES):
        values = records(mechanism, 3) if mechanism.layout else [0, 1, 2]
        reports = mechanism.randomize(values, seed=1)
        assert str(mechanism.dtype.names[0]) in repr(reports)  # type: ignore[index]
        assert str(reports)
        assert str(reports[0])
        assert str(np.asarray(reports)[0])


def forged(reports: np.ndarray, row: int, change) -> np.ndarray:
    """A copy in which one report was changed."""
    copy = np.asarray(reports).copy()
    change(copy[row : row + 1])
    return copy


def test_forged_records_are_told_apart_field_by_field():
    mechanism = Sampled(["Duchi", "GRR(k=300)", "GRR(k=3)"], d=3, m=2, epsilon=2.0)
    reports = mechanism.randomize(np.zeros((200, 3)), seed=1)
    by_dimension = {tuple(pair): row for row, pair in enumerate(np.asarray(reports)["dimension"].tolist())}
    assert len(by_dimension) == 3

    def put(name, slot, value):
        return lambda report: report[name].__setitem__((0, slot), value)

    row = by_dimension[0, 1]
    bad = [
        (row, put("value", 0, 2)),  # a sign that is none
        (row, put("value", 0, 256)),  # which would be a sign, cut to one byte
        (row, put("value", 0, 257)),
        (row, put("value", 1, 300)),
        (by_dimension[0, 2], put("value", 1, 3)),
        (by_dimension[0, 2], put("value", 1, 258)),
        (row, put("dimension", 1, 3)),
        (row, put("dimension", 1, 255)),
        (row, put("dimension", 1, 0)),  # the same dimension twice
        (row, put("dimension", 0, 2)),  # not in order
    ]
    for place, change in bad:
        assert mechanism.valid(forged(reports, place, change)).tolist() == [i != place for i in range(200)]
        with pytest.raises(ReportError, match=f"report {place} "):
            mechanism.tally(forged(reports, place, change))
    fine = forged(reports, row, put("value", 1, 299))
    assert mechanism.valid(fine).all()


def test_bytes_beyond_a_short_report_must_be_clear():
    mechanism = Sampled(["Duchi", "Unary(k=30)"], d=2, m=1, epsilon=2.0)
    reports = mechanism.randomize(np.zeros((200, 2)), seed=1)
    about = np.asarray(reports)["dimension"][:, 0]
    assert mechanism.dtype["report"].base.itemsize == 4
    for row in (int((about == 0).argmax()), int((about == 1).argmax())):
        for byte in range(4):
            for bit in range(8):
                copy = np.asarray(reports).copy()
                copy.view(np.uint8).reshape(200, -1)[row, 1 + byte] |= 1 << bit
                changed = (copy != np.asarray(reports))[row]
                # A sign is 0 or 1 in its first byte; of 32 bits, 30 are categories.
                allowed = (byte == 0 and bit == 0) if about[row] == 0 else 8 * byte + bit < 30
                assert mechanism.valid(copy)[row] == (allowed or not changed)


# Estimates -----------------------------------------------------------------------------------------------------------


def test_means_of_two_users_by_enumeration_of_all_their_reports():
    # Whatever the number of reports that a dimension got, its mean is unbiased for the mean of *all* users.
    mechanism = Sampled("Duchi", d=2, m=1, epsilon=1.0)
    users = np.array([[0.5, -1.0], [-0.25, 0.75]])
    outputs, channel = mechanism.outputs(), mechanism.channel()
    laws = []
    for record in users:
        rows = checks.rounded_value(mechanism, record).items()
        laws.append(sum(float(share) * np.array(channel.row(row), dtype=float) for row, share in rows))
    mean = {(j, n): [0.0, 0.0] for j in (0, 1) for n in (1, 2)}
    for a, b in product(range(len(outputs)), repeat=2):
        tally = mechanism.tally(outputs[[a, b]])
        estimate = mechanism.estimate(tally)
        for j in (0, 1):
            n = mechanism.marginal(tally, j).n
            assert np.isnan(estimate.value[j]) == (n == 0)
            if n:
                odds = laws[0][a] * laws[1][b]
                mean[j, n][0] += odds
                mean[j, n][1] += odds * estimate.value[j]
    for (j, n), (odds, total) in mean.items():
        assert odds == pytest.approx([0.5, 0.25][n - 1])
        assert total / odds == pytest.approx(users[:, j].mean(), abs=1e-9)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("base", "values"),
    [
        ("Piecewise", np.array([-1.0, 1.0])),
        ("Duchi", np.array([-0.9, 0.1])),
        wide("Hybrid", np.array([-1.0, 1.0])),
        wide("Laplace", np.array([-1.0, 1.0])),
    ],
)
def test_error_bars_cover_which_users_were_asked(base, values):
    # 3,000 collections of 400 users in 4 dimensions: a variance is known to 1.3% a dimension (chi-square with 2,999
    # degrees), and 8% is 6 deviations: false alarm 1e-8. Without the users' own spread the error would be 5 times less.
    mechanism = Sampled(base, d=4, m=1, epsilon=8.0)
    table = np.repeat(values, 200)[:, None] * np.array([1.0, -1.0, 1.0, -1.0])
    reports = np.asarray(mechanism.randomize(np.tile(table, (3000, 1)), seed=4))
    found, stated = [], []
    for part in np.split(reports, 3000):
        estimate = mechanism.estimate(mechanism.tally(part))
        found.append(estimate.value)
        stated.append(estimate.stderr**2)
    true = np.var(found, axis=0)
    np.testing.assert_allclose(np.mean(found, axis=0), table.mean(axis=0), atol=6.5 * (true.max() / 3000) ** 0.5)
    np.testing.assert_allclose(np.mean(stated, axis=0) / true, 1.0, atol=0.16)


def test_among_whom_the_reports_were_drawn():
    for mechanism, values in ((Piecewise(4.0), np.tile([-1.0, 1.0], 5000)), (GRR(3, 4.0), np.tile([0, 0, 0, 1], 2500))):
        tally = mechanism.tally(mechanism.randomize(values, seed=1))
        read = lambda among, own=mechanism, tally=tally: own.reading.estimate(tally, own.guarantee, "", among)  # noqa: E731
        alone, all_asked, half, few = read(None), read(10_000), read(20_000), read(10**9)
        assert (alone.stderr == all_asked.stderr).all()
        assert (alone.value == few.value).all()
        added = [(other.stderr**2 - alone.stderr**2) * tally.n for other in (half, few)]
        np.testing.assert_allclose(added[0], added[1] / 2, rtol=1e-3)
        spread = 1.0 if isinstance(mechanism, Piecewise) else np.array([3 / 16, 3 / 16, 0.0])
        np.testing.assert_allclose(added[1], spread, atol=0.05)


def test_dimensions_without_a_report_are_not_a_number():
    mechanism = SampledDuchi(d=3, m=1, epsilon=1.0)
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize([[0.5, 0.5, 0.5]], seed=1)))
    assert np.isnan(estimate.value).sum() == 2
    assert (np.isinf(estimate.stderr) == np.isnan(estimate.value)).all()
    low, high = (end[np.isnan(estimate.value)].tolist() for end in estimate.interval(0.95))
    assert (low, high) == ([-1.0, -1.0], [1.0, 1.0]), "all of the domain is possible"
    assert "2 dimensions have no report yet" in estimate.explain()
    assert "nan to nan" not in estimate.explain()
    assert repr(estimate)
    mixed = Sampled(["Duchi", "GRR(k=4)"], d=2, m=1, epsilon=1.0)
    reports = mixed.randomize(np.zeros((50, 2)), seed=1)
    for j, shape in enumerate([(), (4,)]):
        only: Any = mixed.estimate(mixed.tally(reports[np.asarray(reports)["dimension"][:, 0] != j]))
        assert np.isnan(only[j].value).all()
        assert np.shape(only[j].value) == shape
        assert only[j].n == 0
        assert not np.isnan(only[1 - j].value).any()
        assert "No report yet" in only.explain()
        assert repr(only)


@pytest.mark.parametrize(
    "mechanism",
    [
        Sampled("Piecewise", d=5, m=2, epsilon=2.0),
        Split(["Duchi", "GRR(k=300)"], d=2, epsilon=2.0),
        Sampled(MIXED, d=7, m=3, epsilon=4.0),
        Sampled("Histogram(base='Duchi', k=3)", d=3, m=2, epsilon=4.0),
    ],
    ids=lambda mechanism: checks.label(mechanism)[:60],
)
def test_a_marginal_is_the_tally_of_the_dimension_alone(mechanism):
    layout = mechanism.layout
    reports = np.asarray(mechanism.randomize(records(mechanism, 2000), seed=1))
    tally = mechanism.tally(reports)
    slots = reports[mechanism.dtype.names[-1]]
    chosen = reports["dimension"] if layout.m < layout.d else np.tile(np.arange(layout.d), (2000, 1))
    for j in range(layout.d):
        part = mechanism.part(j)
        about = np.ascontiguousarray(slots[chosen == j])
        if "value" in mechanism.dtype.names:
            own = about.astype(part.dtype)
        else:
            own = about.view(np.uint8).reshape(len(about), -1)[:, : part.dtype.itemsize].copy().view(part.dtype)[:, 0]
        assert mechanism.marginal(tally, j) == part.tally(own)
        assert part.estimate(mechanism.marginal(tally, j)).n == len(own)
    for j in (-1, layout.d, 1.0, True, None):
        with pytest.raises(ParameterError):
            mechanism.marginal(tally, j)
        with pytest.raises(ParameterError):
            mechanism.part(j)


def test_a_distribution_is_read_off_a_marginal():
    mechanism = Sampled("SquareWave", d=2, m=1, epsilon=2.0)
    values = np.column_stack([np.full(60_000, 0.6), np.full(60_000, -0.6)])
    tally = mechanism.tally(mechanism.randomize(values, seed=1))
    for j, bin_ in ((0, 3), (1, 0)):
        part: Any = mechanism.part(j)
        shape = part.distribution(mechanism.marginal(tally, j), bins=4, smooth=False)
        assert shape.value.argmax() == bin_
        assert shape.value[bin_] > 0.8
        assert shape.n == mechanism.marginal(tally, j).n


def test_estimates_are_a_mapping():
    mechanism = Sampled(["Duchi", "GRR(k=3)"], d=2, m=1, epsilon=1.0)
    tally = mechanism.tally(mechanism.randomize(np.zeros((500, 2))))
    estimates = mechanism.estimate(tally)
    assert isinstance(estimates, Estimates)
    assert list(estimates) == [0, 1]
    assert len(estimates) == 2
    assert estimates.guarantee == mechanism.guarantee == estimates[0].guarantee
    assert np.size(estimates[0].value) == 1
    assert np.size(estimates[1].value) == 3
    assert estimates[0].n + estimates[1].n == 500
    assert 1 in estimates
    assert 2 not in estimates
    with pytest.raises(KeyError):
        estimates[2]
    assert {key: part.n for key, part in estimates.items()} == {0: estimates[0].n, 1: estimates[1].n}
    assert "[0] Estimate of mean" in repr(estimates)
    assert "[1] Estimate of frequency" in repr(estimates)
    assert estimates.explain().startswith("0: The mean")
    assert "<h4>1</h4>" in estimates._repr_html_()
    many = Estimates({f"<{i}>": estimates[0] for i in range(40)})
    assert "... and 30 more" in repr(many)
    assert "<h4>&lt;7&gt;</h4>" in many._repr_html_()


def test_a_record_of_numbers_has_one_estimate_and_others_a_mapping():
    assert isinstance(_estimate(Sampled("Duchi", d=3, m=2, epsilon=1.0)), Estimate)
    assert isinstance(_estimate(Sampled(["Duchi", "Piecewise"], d=2, m=1, epsilon=1.0)), Estimate)
    assert isinstance(_estimate(Split("GRR(k=3)", d=2, epsilon=1.0)), Estimates)
    with pytest.raises(ParameterError, match="moments of their own"):
        Split(["GRR(k=3)", "Duchi"], d=2, epsilon=1.0).moments([[0, 0.5]])
    mixed = Sampled(["Duchi", "Piecewise"], d=2, m=1, epsilon=1.0).moments([[0.5, -1.0], [0.0, 0.25]])
    assert mixed.variance[:, 0] == pytest.approx(Duchi(1.0).moments([0.5, 0.0]).variance)
    assert mixed.variance[:, 1] == pytest.approx(Piecewise(1.0).moments([-1.0, 0.25]).variance)


def _estimate(mechanism):
    return mechanism.estimate(mechanism.tally(mechanism.randomize(np.zeros((100, mechanism.d)), seed=1)))


# The best m ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "d", "epsilon"),
    [
        *product(["Duchi", "Piecewise"], [1, 2, 7, 20], [0.1, 1.0, 4.0, 9.0, 30.0]),
        *product(["Hybrid", "Laplace", "GRR(k=4)", "Unary(k=6)", "SubsetSelection(k=5)"], [6], [0.5, 5.0, 20.0]),
        (("Duchi", "GRR(k=8)", "Piecewise", "LocalHash(k=20, cohorts=9)"), 4, 3.0),
        (("Duchi", "GRR(k=8)", "Piecewise", "LocalHash(k=20, cohorts=9)"), 4, 25.0),
        ("Histogram(base='Piecewise', k=4)", 5, 12.0),
    ],
)
def test_the_best_m_is_the_best_of_all(base, d, epsilon):
    costs = {m: Sampled(base, d=d, m=m, epsilon=epsilon).reading.worst_variance() for m in range(1, d + 1)}
    assert costs[Sampled(base, d=d, epsilon=epsilon).m or 0] == min(costs.values())


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 3.0, 4.0, 4.4, 6.0, 8.0, 11.0, 16.0, 40.0])
@pytest.mark.parametrize("d", [1, 2, 5, 85])
def test_the_m_of_sampled_duchi_is_that_of_002_rounded_to_the_better_side(epsilon, d):
    ideal = epsilon / 2.17732  # 002 Lemma 5
    sides = {min(max(1, side), d) for side in (floor(ideal), ceil(ideal))}
    cost = {m: SampledDuchi(d, epsilon, m=m).reading.worst_variance() for m in sides}
    assert SampledDuchi(d, epsilon).m == min(cost, key=lambda m: cost[m])
    assert (
        SampledDuchi(d, epsilon).reading.worst_variance()
        == Sampled("Duchi", d=d, epsilon=epsilon).reading.worst_variance()
    )


def test_the_worst_variance_is_that_of_the_worst_population():
    # Users at -1 and at 1 in halves, or all at 0: the larger of what moments say, with the users' own spread.
    for base, epsilon, (d, m) in product(("Piecewise", "Duchi", "Laplace"), (1.0, 6.0), ((5, 2), (3, 3))):
        mechanism = Sampled(base, d=d, m=m, epsilon=epsilon)
        ends, middle = mechanism.part(0).moments(np.array([1.0, 0.0])).variance
        worst = max(ends + (1 - m / d), middle) * d / m
        assert mechanism.reading.worst_variance() == pytest.approx(worst, rel=2e-3)


@pytest.mark.parametrize(
    ("base", "budget"), [("Duchi", {"epsilon": 1.5e-12}), ("Gaussian", {"epsilon": 1.0, "delta": 2.0**-100})]
)
def test_an_m_that_cannot_be_had_is_not_the_best(base, budget):
    # epsilon/2 or delta/2 is below what the base takes; m = 1 works, and is what is left.
    assert Sampled(base, d=3, m=1, **budget).m == 1
    assert Sampled(base, d=3, **budget).m == 1


# The budget ----------------------------------------------------------------------------------------------------------


def test_the_budget_is_shared_by_what_is_reported():
    for m in (1, 2, 3, 7):
        mechanism = Sampled("Duchi", d=7, m=m, epsilon=1.0, delta=1e-3)
        part = mechanism.part(3)
        assert Fraction(part.epsilon) * m <= 1
        assert part.epsilon == pytest.approx(1 / m, rel=1e-15)
        assert part.delta >= 1e-3 / m * (1 - 1e-11)
        assert mechanism.guarantee.epsilon == 1.0
        assert 1e-3 * (1 - 2e-9) <= mechanism.guarantee.delta <= 1e-3
        assert mechanism.guarantee.established == "exact"
    mixed = Split(["Duchi", "GRR(k=3)", "Piecewise"], d=3, epsilon=3.0, delta=1e-3)
    assert mixed.guarantee.established == "exact"
    assert 1e-3 * (1 - 2e-9) <= mixed.guarantee.delta <= 1e-3
    assert not hasattr(mixed.part(2), "delta") or mixed.part(2).delta == 0
    with pytest.raises(ParameterError, match="has no delta"):
        Split("Piecewise", d=2, epsilon=1.0, delta=1e-3)


def test_swapped_integers_are_certified_like_any_others():
    # Weights the other way round keep the same promise, and the certificate must not state a better one.
    honest = SampledDuchi(d=2, m=2, epsilon=1.0, delta=1e-3)
    assert honest.weights is not None
    (high, low, width, steps), share = honest.weights
    swapped = SampledDuchi(d=2, m=2, epsilon=1.0, delta=1e-3, weights=((low, high, width, steps), share))
    assert swapped.guarantee.delta == honest.guarantee.delta > 0
    assert dither.privacy.certify(swapped) == swapped.guarantee


def enumerated_delta(mechanism) -> Fraction:
    """The delta of all that is shown at the declared epsilon, over every pair of records and every choice, listed."""
    ratio, worst = exp_below(mechanism.epsilon), Fraction(0)
    for chosen in combinations(range(mechanism.d), mechanism.m):
        laws = [mechanism.part(j).channel().worst_component for j in chosen]
        ends = [(law.row(0), law.row(law.shape[0] - 1)) for law in laws]
        for sides in product((0, 1), repeat=len(chosen)):
            words = [
                [
                    prod(cells, start=Fraction(1))
                    for cells in product(*(end[side ^ x] for end, side in zip(ends, sides, strict=True)))
                ]
                for x in (0, 1)
            ]
            worst = max(worst, hockey_stick(words[0], words[1], ratio))
    return worst


# Bases, d, m, epsilon, delta, and the share of the variance that is saved by spending all of delta.
SPENT = [
    (("Duchi", "GRR(k=3)"), 2, 2, 1.0, 0.1, 0.218),
    (("GRR(k=10)", "GRR(k=10)", "Duchi"), 3, 2, 1.0, 0.5, 0.367),
    (("Duchi", "GRR(k=30)"), 2, 2, 1.0, 1e-2, 0.30),
    (("Duchi", "Unary(k=3)", "GRR(k=4)"), 3, 2, 2.0, 1e-3, 0.0),
    (("Duchi", "LocalHash(k=9, cohorts=3)"), 2, 2, 2.0, 1e-2, 0.0),
    ("Duchi", 3, 3, 1.0, 1e-3, 0.006),
]


@pytest.mark.parametrize(("bases", "d", "m", "epsilon", "delta", "saved"), SPENT)
def test_all_of_delta_is_spent_and_never_more(bases, d, m, epsilon, delta, saved):
    mechanism = Sampled(bases, d=d, m=m, epsilon=epsilon, delta=delta)
    assert mechanism.guarantee.established == "exact"
    assert delta * (1 - 2e-9) <= mechanism.guarantee.delta <= delta
    assert enumerated_delta(mechanism) <= Fraction(delta)
    assert float(enumerated_delta(mechanism)) == pytest.approx(delta, rel=2e-9)
    shared = mechanism._arranged(m, mechanism._parts(m))  # with delta/m each
    assert mechanism.reading.worst_variance() <= (1 - saved) * shared.worst_variance()


def test_a_share_that_grows_too_far_is_refused(monkeypatch):
    real = sampled._largest
    monkeypatch.setattr(sampled, "_largest", lambda spent, low: int(real(spent, low) * 1.000001))
    for bases, d, m, epsilon, delta, _ in SPENT:
        with pytest.raises(ParameterError, match="do not keep the declared guarantee"):
            Sampled(bases, d=d, m=m, epsilon=epsilon, delta=delta)


def test_integers_from_before_deltas_were_spent_are_kept():
    """Their parts have delta/m, as when they were made, and the certificate states what they attain."""
    now = Sampled(("Duchi", "GRR(k=3)"), d=2, m=2, epsilon=1.0, delta=0.1)
    before = Sampled(
        ("Duchi", "GRR(k=3)"),
        d=2,
        m=2,
        epsilon=1.0,
        delta=0.1,
        weights=tuple(part.weights for part in now._parts(2)),
    )
    assert len(before.weights or ()) == 2
    assert before.part(0).delta == 0.05
    assert before.guarantee.delta == pytest.approx(0.0535303, abs=1e-6)
    assert before.guarantee.established == "exact"
    for mechanism in (now, before):
        assert Sampled.from_dict(mechanism.to_dict()) == mechanism
        assert pickle.loads(pickle.dumps(mechanism)).fingerprint == mechanism.fingerprint
    assert now.fingerprint != before.fingerprint


@pytest.mark.wide
@pytest.mark.parametrize("d", [100, 1000])
def test_many_dimensions_of_many_kinds_are_calibrated(d):
    bases = ["Duchi", "GRR(k=3)", "GRR(k=5)", "Unary(k=4)"] * (d // 4)
    mechanism = Split(bases, d=d, epsilon=1.0, delta=1e-6)
    assert 1e-6 * (1 - 2e-9) <= mechanism.guarantee.delta <= 1e-6
    channel = mechanism.channel()
    assert float(channel.gap(exp_below(1.0))) < 5e-3 * 1e-6
    assert mechanism.reading.worst_variance() < 0.2 * mechanism._arranged(d, mechanism._parts(d)).worst_variance()


@pytest.mark.parametrize(
    "weights",
    [
        (),
        ((3, 1, 1, 1), (3, 1, 1, 1)),
        ((3, 1, 1, 1), 0),
        ((3, 1, 1, 1), 5, 5),
        ((3, 1, 1),),
        ((3.0, 1, 1, 1),),
        ((0, 1, 1, 1),),
        3,
        "31",
        ((1000, 1, 1, 1),),
    ],
)
def test_stored_integers_are_checked(weights):
    with pytest.raises(ParameterError):
        SampledDuchi(d=3, m=2, epsilon=1.0, weights=weights)


@pytest.mark.wide
def test_a_thousand_dimensions_are_certified_at_once():
    for mechanism in (
        Split("Duchi", d=2000, epsilon=1.0, delta=1e-6),
        Split(["Duchi", "GRR(k=3)"] * 500, d=1000, epsilon=1.0),
        Sampled("Piecewise", d=1 << 16, epsilon=3.0),
    ):
        assert 1.0 - 1e-9 <= mechanism.guarantee.epsilon / mechanism.epsilon <= 1.0
        reports = mechanism.randomize(np.zeros((20, mechanism.d)), seed=1)
        assert mechanism.valid(reports).all()


# Recipes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "base",
    [
        "GRR(k=5)",
        " grr ( k = 5 ) ",
        "GRR(k=5,)",
        "(GRR)(k=0x5)",
        {"mechanism": "GRR", "k": 5},
        {"mechanism": "grr", "k": np.int64(5)},
        functools.partial(GRR, k=5),
        functools.partial(functools.partial(dither.GRR), k=5),
        functools.partial(GRR, k=np.int32(5)),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_recipes_have_one_normal_form(base):
    assert normal_spec(base) == "GRR(k=5)"
    built = Sampled(base, d=3, m=2, epsilon=1.0)
    assert built == Sampled("GRR(k=5)", d=3, m=2, epsilon=1.0)
    assert built.fingerprint == Sampled(["GRR(k=5)"] * 3, d=3, m=2, epsilon=1.0).fingerprint
    assert hash(built) == hash(Sampled("GRR(k=5)", d=3, m=2, epsilon=1.0))


def test_recipes_keep_the_order_of_the_mechanism():
    assert normal_spec("LocalHash(cohorts=3, k=4)") == normal_spec({"k": 4, "mechanism": "localhash", "cohorts": 3})
    assert normal_spec("LocalHash(cohorts=3, k=4)") == "LocalHash(k=4, cohorts=3)"
    assert normal_spec(dither.Piecewise) == normal_spec("Piecewise()") == normal_spec("piecewise") == "Piecewise"
    assert normal_spec("Unary(k=3, kind='symmetric', q=None)") == "Unary(k=3, kind='symmetric', q=None)"
    assert normal_spec(normal_spec("Histogram(k=3, base='Duchi')")) == "Histogram(base='Duchi', k=3)"


INJECTIONS = [
    "__import__('os')",
    "__import__('os').system('true')",
    "GRR(k=__import__('os').getpid())",
    "GRR(k=(lambda: 5)())",
    "GRR(k=[5 for _ in 'x'][0])",
    "GRR(k=5) or 1",
    "GRR(k=5); import os",
    "GRR(k=5)\nimport os",
    "os.system(k=5)",
    "dither.GRR(k=5)",
    "GRR.from_dict(k=5)",
    "GRR(k=5)(epsilon=1.0)",
    "GRR(*[5])",
    "GRR(**{'k': 5})",
    "GRR(5)",
    "GRR(k=k)",
    "GRR(k=2**70)",
    "GRR(k={[]: 1})",
    "GRR(k=f'{5}')",
    "(GRR := 5)",
    "GRR[5]",
    "GRR\0(k=5)",
    "",
    " ",
    "()",
    "5",
    "'GRR'",
    "GRR(k=5",
    "GRR(k=" + "-" * 20_000 + "5)",
    "GRR(k=" + "(" * 500 + "5" + ")" * 500 + ")",
    "registry",
    "Mechanism",
    "load(k=5)",
]


@pytest.mark.parametrize("text", INJECTIONS, ids=lambda text: repr(text)[:40])
def test_what_is_no_recipe_is_refused_without_running_it(text, monkeypatch):
    import os

    monkeypatch.setattr(os, "system", lambda command: pytest.fail("a recipe ran a command"))
    with pytest.raises(ParameterError):
        normal_spec(text)
    with pytest.raises(ParameterError):
        Sampled(text, d=2, m=1, epsilon=1.0)


@pytest.mark.parametrize(
    "base",
    [
        "GRR(k=5, epsilon=1.0)",
        "GRR(k=5, delta=0.0)",
        "GRR(k=5, weights=None)",
        "GRR(k=5, size=3)",
        "GRR(k=5, k=6)",
        {"mechanism": "GRR", "k": 5, "epsilon": 1.0},
        {"k": 5},
        {"mechanism": 5},
        functools.partial(GRR, 5),
        functools.partial(GRR, k=5, epsilon=1.0),
        functools.partial(print),
        int,
        type("GRR", (GRR,), {}),
        GRR(5, 1.0),
        5,
        None,
        b"GRR(k=5)",
        [],
        ["GRR(k=5)"],
        ["GRR(k=5)", 5],
        ["GRR(k=5)"] * 3,
        [["GRR(k=5)"], "Duchi"],
    ],
    ids=lambda base: str(base)[:50],
)
def test_bases_that_are_no_recipe_are_refused(base):
    with pytest.raises(ParameterError):
        Sampled(base, d=2, m=1, epsilon=1.0)
    with pytest.raises(ParameterError):
        Split(base, d=2, epsilon=1.0)


@pytest.mark.parametrize(
    "base",
    ["Sampled(base='Duchi', d=2)", "Hypercube(d=3)", "SampledDuchi(d=2)", "Gaussian(d=2)", "Split(base='Duchi', d=2)"],
)
def test_a_base_is_for_one_value(base):
    with pytest.raises(ParameterError):
        Sampled(base, d=2, m=1, epsilon=1.0, delta=1e-3 if "Gaussian" in base else 0.0)


@shapes
def test_stored_mechanisms_survive_json(mechanism):
    text = json.dumps(mechanism.to_dict())
    again = load(json.loads(text))
    assert again == mechanism
    assert again.fingerprint == mechanism.fingerprint
    assert again.guarantee == mechanism.guarantee
    values = records(mechanism, 50)
    assert (again.randomize(values, seed=1) == mechanism.randomize(values, seed=1)).all()


def test_tallies_of_other_records_are_refused():
    one, other = (Sampled("Duchi", d=3, m=m, epsilon=1.0) for m in (1, 2))
    tallies = [each.tally(each.randomize(np.zeros((5, 3)), seed=1)) for each in (one, other)]
    with pytest.raises(TallyError):
        sum(tallies)
    with pytest.raises(TallyError):
        one.estimate(tallies[1])


# Nothing raw ---------------------------------------------------------------------------------------------------------


@shapes
def test_nothing_raw_in_pickles_and_representations(mechanism):
    secret = 0.987654321
    values = records(mechanism, 20).astype(float)
    numeric = [
        j for j in range(mechanism.layout.d) if isinstance(mechanism.layout.part(j).reading.domain, UnitInterval)
    ]
    values[:, numeric] = secret
    reports = mechanism.randomize(values)
    mechanism.estimate(mechanism.tally(reports))
    for thing in (mechanism, mechanism.tally(reports)):
        stored = pickle.dumps(thing)
        assert np.float64(secret).tobytes() not in stored
        assert np.float64(secret).tobytes()[::-1] not in stored
        assert b"98765" not in stored
        assert "98765" not in repr(thing)
    if numeric:
        values[3, numeric[0]] = 1 + secret
        with pytest.raises(DomainError) as caught:
            mechanism.randomize(values)
        assert "98765" not in str(caught.value) + repr(caught.value.__context__)


# Gaussian noise in d dimensions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta", "d"), [(1.0, 1e-6, 2), (0.1, 1e-3, 3), (3.0, 1e-9, 8), (1.0, 1e-5, 100)])
def test_gaussian_records_are_certified_closely(epsilon, delta, d):
    mechanism = Gaussian(epsilon, delta=delta, d=d)
    promise = mechanism.guarantee
    assert promise.established == "bound"
    assert promise.epsilon == epsilon
    assert delta * (1 - 1e-6) <= promise.delta <= delta
    assert Gaussian.from_dict(json.loads(json.dumps(mechanism.to_dict()))) == mechanism
    values = np.linspace(-0.9, 0.5, 20_000)[:, None] * np.linspace(-1, 1, d)
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(values, seed=1)))
    # Within 6.5 standard errors in up to 100 dimensions: false alarm 1e-8.
    assert (np.abs(estimate.value - values.mean(axis=0)) < 6.5 * estimate.stderr).all()
    assert estimate.value.shape == (d,)


def tampered(mechanism: Gaussian, **changes) -> Gaussian:
    assert mechanism.weights is not None
    *table, steps, reach, stretch, fine = mechanism.weights
    parts = {"table": table, "steps": steps, "reach": reach, "stretch": stretch, "fine": fine, **changes}
    weights = (*parts["table"], parts["steps"], parts["reach"], parts["stretch"], parts["fine"])
    return Gaussian.from_dict({**mechanism.to_dict(), "weights": weights})


@pytest.mark.parametrize("d", [2, 3, 8])
def test_tampered_gaussian_records_are_refused_or_no_better_than_honest(d):
    honest = Gaussian(1.0, delta=1e-6, d=d)
    assert honest.weights is not None
    *table, steps, reach, _, fine = honest.weights
    changes = [
        {"fine": fine * 101 // 100},
        {"fine": fine * 99 // 100},
        {"fine": fine * 1000},
        {"fine": fine // 1000},
        {"fine": 1},
        {"steps": steps + 1, "reach": reach - 1},
        {"steps": steps + 1},
        {"stretch": 2},
        {"stretch": 0},
        {"table": [table[0] * 2, *table[1:]]},
        {"table": [table[0] + table[0] // 10**6, *table[1:]]},
        {"table": [*table[:-1], 1]},
        {"table": [*table[:-1], table[-1] * 2]},
        {"table": table[:-1]},
        {"table": [weight // 2**60 + 1 for weight in table]},
    ]
    for change in changes:
        try:
            other = tampered(honest, **change)
        except DitherError:
            continue
        assert other.guarantee.delta <= 1e-6
        if change.keys() == {"fine"}:  # the same noise in other words keeps what it kept
            assert other.guarantee.delta >= honest.guarantee.delta * (1 - 1e-6)
        assert other.moments(np.zeros((1, d))).variance[0, 0] >= honest.moments(np.zeros((1, d))).variance[0, 0] * (
            1 - 1e-6
        )


@pytest.mark.parametrize(("d", "factor"), [(2, 300), (2, 10_000), (10, 10_000), (3, 300)])
def test_a_table_that_is_far_narrower_than_it_says_is_refused(d, factor):
    # Noise for one dimension, declared as noise for d with a variance that the table does not have. Relative to that
    # law, the table is off by more than all of its weight, and a bound by (1 - c)^d would be positive for an even d.
    s2, steps = gaussian_scale(1.0, 1e-6, 1)
    law = unstretched_table(s2, steps)
    assert float(gaussian_bound(s2, steps, d, exp_below(1.0))) > 1e-4  # what would be delivered
    assert table_deviation(law.weights, s2 * factor) > 1
    with pytest.raises(ParameterError):
        Gaussian(1.0, delta=1e-6, d=d, weights=(*law.weights, law.steps, law.reach, 1, int(s2 * factor * FINE)))


def test_a_bound_from_a_useless_deviation_is_one():
    for deviation, d in product((Fraction(1), Fraction(3, 2), Fraction(30)), (2, 3)):
        assert gaussian_bound(Fraction(10**6), 1, d, exp_below(1.0), deviation) == 1


def test_a_stored_variance_without_measure_does_not_hang():
    # Following the tail of a law with this variance would never end; the code runs apart, so that it can be stopped.
    code = (
        "import dither; g = dither.Gaussian(1.0, delta=1e-6, d=2)\n"
        "try: dither.Gaussian(1.0, delta=1e-6, d=2, weights=(*g.weights[:-1], g.weights[-1] << 200))\n"
        "except dither.DitherError: pass\n"
        "else: raise SystemExit(1)"
    )
    try:
        found = subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode
    except subprocess.TimeoutExpired:
        found = -1
    assert found == 0


def test_so_many_dimensions_are_too_many_to_sample_from():
    for make in (lambda d: Sampled("Piecewise", d=d, m=1, epsilon=1.0), lambda d: SampledDuchi(d=d, epsilon=1.0)):
        with pytest.raises(ParameterError, match="UnitVector or BallGaussian"):
            make((1 << 16) + 1)
