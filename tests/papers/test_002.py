"""002 as printed, measured: Mechanism-1 delivers C_d times its delta, and Remark 1 has another scale than printed.

And its description: the golden numbers come out, all claims are there, and other numbers make other verdicts.
"""

import inspect
from fractions import Fraction
from functools import cache, partial
from importlib import import_module
from itertools import product
from math import comb

import pytest

from dither import Hypercube
from dither.core.channel import hockey_stick
from dither.core.exact import exp_below
from dither.errors import ParameterError
from dither.mechanisms.hypercube import half_space
from dither.reproduce import papers
from dither.reproduce.fingerprints import PACKAGE, code
from dither.reproduce.measured import Measured, Number, Row
from scripts_by_path import paper

printed = paper("002", "as_printed")
PAPER = papers.load_paper("002")
ORIGINAL_SOURCE = inspect.getsource
EPSILON, DELTA = 1.0, 1e-3
E = exp_below(EPSILON)
SIZES = {3: 4, 4: 5, 5: 16, 6: 22, 7: 64, 8: 93}
each_size = pytest.mark.parametrize(("d", "size"), SIZES.items())


def by_agreements(d: int, high: Fraction, low: Fraction, between: int) -> Fraction:
    """The divergence at e^epsilon of two corners that differ in `between` signs, by the numbers of agreeing signs."""
    lost = Fraction(0)
    for here, there in product(range(between + 1), range(d - between + 1)):  # disagreements with the first corner
        one, other = here + there, between - here + there
        gain = (high if 2 * one < d else low) - E * (high if 2 * other < d else low)
        lost += comb(between, here) * comb(d - between, there) * max(Fraction(0), gain)
    return lost


def worst(channel) -> Fraction:
    """The largest divergence over all pairs of corners that start at the first: the others are mirror images."""
    d = channel.outputs.bit_length() - 1
    high, low = Fraction(channel.high, channel.total), Fraction(channel.low, channel.total)
    return max(by_agreements(d, high, low, between) for between in range(1, d + 1))


@each_size
def test_c_d_is_the_number_of_corners_on_one_side(d, size):
    assert half_space(d) == size
    assert sum(2 * corner.bit_count() < d for corner in range(1 << d)) == size


@each_size
def test_as_printed_delivers_c_d_times_delta(d, size):
    channel = printed.hypercube(d, EPSILON, DELTA)
    assert float(worst(channel)) / DELTA == pytest.approx(size, rel=1e-9)
    assert channel.divergence(E) == worst(channel)
    assert float(channel.inside) == pytest.approx(printed.printed_alpha(d, EPSILON, DELTA), rel=1e-12)


@each_size
def test_the_sound_form_delivers_delta(d, size):
    channel = Hypercube(d, EPSILON, DELTA).law
    assert Fraction(DELTA) * (1 - Fraction(1, 10**9)) <= worst(channel) <= Fraction(DELTA)
    assert channel.divergence(E) == worst(channel)
    assert channel.apart == size


@pytest.mark.parametrize("d", [3, 4, 5, 6])
def test_both_by_brute_force_over_all_corners(d):
    for channel in (Hypercube(d, EPSILON, DELTA).channel(), printed.hypercube(d, EPSILON, DELTA)):
        first = channel.row(0)
        assert sum(first) == 1
        assert max(hockey_stick(first, channel.row(x), E) for x in range(1, 1 << d)) == worst(channel)
        assert hockey_stick(first, channel.row((1 << d) - 1), E) == worst(channel)  # the opposite corner is the worst


@pytest.mark.wide
@pytest.mark.parametrize(("d", "delta"), [(85, 1e-26), (42, 1e-13)])
def test_at_the_settings_of_the_paper_the_true_delta_is_a_fifth(d, delta):
    channel = printed.hypercube(d, EPSILON, delta)
    assert channel.profile(EPSILON) == pytest.approx(0.193, abs=5e-4)
    assert channel.profile(EPSILON) == pytest.approx(half_space(d) * delta, rel=1e-6)
    assert worst(channel) == channel.divergence(E)
    assert Hypercube(d, EPSILON, delta).guarantee.delta <= delta


def test_the_printed_form_ends_where_c_d_delta_is_one():
    with pytest.raises(ParameterError, match="delta is too large"):
        printed.hypercube(11, EPSILON, DELTA)
    assert Hypercube(11, EPSILON, DELTA).guarantee.delta <= DELTA


@each_size
def test_eq_8_is_unbiased_for_the_printed_channel(d, size):
    channel = printed.hypercube(d, EPSILON, DELTA)
    assert printed.printed_scale(d, EPSILON, DELTA) == pytest.approx(float(printed.true_scale(d, channel)), rel=1e-12)
    assert printed.printed_scale(d, EPSILON, DELTA / size) == pytest.approx(
        Hypercube(d, EPSILON, DELTA).reading.scale, rel=1e-12
    )


def test_remark_1_is_biased_with_eq_8():
    channel = printed.remark_1(4, EPSILON, DELTA)
    row = channel.row(15)
    first_sign = sum((probability if y & 1 else -probability for y, probability in enumerate(row)), Fraction(0))
    assert printed.true_scale(4, channel) == 1 / first_sign
    assert round(float(1 / first_sign), 3) == 6.708
    assert round(printed.printed_scale(4, EPSILON, DELTA), 3) == 4.727


@pytest.mark.parametrize("d", [3, 4, 5, 6])
def test_remark_1_delivers_c_d_times_delta_too(d):
    channel = printed.remark_1(d, EPSILON, DELTA)
    first = channel.row(0)
    assert sum(first) == 1
    enumerated = max(hockey_stick(first, channel.row(x), E) for x in range(1, 1 << d))
    assert enumerated == channel.divergence(E)
    assert float(enumerated) / DELTA == pytest.approx(SIZES[d], rel=1e-9)


def test_remark_1_is_the_same_for_odd_d():
    assert printed.remark_1(5, EPSILON, DELTA) == printed.hypercube(5, EPSILON, DELTA)


def test_the_printed_form_as_a_mechanism_says_what_it_delivers():
    mechanism = printed.mechanism_1(5, EPSILON, 1e-6)
    assert float(mechanism.law.inside) == pytest.approx(printed.printed_alpha(5, EPSILON, 1e-6), rel=1e-9)
    assert mechanism.guarantee.delta == pytest.approx(16e-6, rel=1e-9)
    assert mechanism.reading.scale == pytest.approx(printed.printed_scale(5, EPSILON, 1e-6), rel=1e-9)


@pytest.mark.parametrize(("d", "delta"), [(1, 1e-6), (5, 0.0097), (15, 0.099)])
def test_the_printed_sensitivity_of_opt_gm_gives_another_delta(d, delta):
    sigma = printed.gaussian_sigma(1.0, 1e-6)
    assert sigma**2 == pytest.approx(71.392, abs=1e-3)
    assert printed.gaussian_delta(1.0, sigma, 2 * d**0.5) == pytest.approx(delta, rel=0.01)


def test_mechanism_2_keeps_its_delta():
    assert [round(printed.sampled_delta(3, k, 2.0, 1e-3) / 1e-3, 2) for k in (1, 2, 3)] == [1.0, 0.73, 0.44]


def described(name: str):
    """A file of the description of the paper."""
    return import_module(f"{PACKAGE}.002.{name}")


@cache
def measured(name: str) -> Measured:
    """All numbers of an experiment that draws nothing."""
    experiment = getattr(described("formulas"), name)
    return Measured.of(
        Number({**setting, **each.where}, each.value)
        for setting in experiment.settings
        for each in experiment.measure(dict(setting), 0)
    )


def claim(number: int):
    return next(each for each in PAPER.claims if each.name == f"002.claim{number}")


def changed(numbers: Measured, factor: float, **where) -> Measured:
    """With some of the numbers multiplied."""
    rows = tuple(
        row._replace(value=row.value * factor) if where.items() <= row.where.items() else row for row in numbers.rows
    )
    assert rows != numbers.rows
    return Measured(rows, numbers.notes)


def test_all_claims_and_figures_of_the_paper_are_described():
    assert [each.name for each in PAPER.claims] == [f"002.claim{number}" for number in range(1, 31)]
    entries = {*(f"002.fig{number}" for number in range(1, 11)), "002.lem5", "002.eq57"}
    assert {each.name for each in PAPER.figures} == entries | {f"002.appA{number}" for number in (1, 2, 3)}


def test_the_numbers_of_fig_1_and_2():
    one = measured("ONE_NUMBER").select(panel="epsilon")
    assert one.curve("epsilon", line="Algorithm 2").value == pytest.approx(
        [400.65, 16.671, 4.6827, 1.7241, 1.0273, 1.0002], rel=1e-4
    )
    assert one.curve("epsilon", line="Opt-GM").value == pytest.approx(
        [5272.1, 259.70, 71.392, 19.900, 3.842, 1.171], rel=5e-4
    )
    two = measured("CATEGORY_VARIANCES").select(delta=1e-6, epsilon=1.0)
    known = {"GRR k=2": 0.9207, "GRR k=10": 3.630, "GRR k=100": 34.11, "SPRR": 3.918, "OLH": 3.683, "Opt-GM": 35.70}
    assert {line: two.value(line=line) for line in known} == pytest.approx(known, rel=5e-4)
    assert two.value(line="OLH, whole g") == pytest.approx(3.6916, rel=1e-4)


def test_the_worked_constants():
    roots = measured("LEMMA_5")
    assert roots.value(quantity="root of g1") == pytest.approx(0.738835, abs=1e-6)
    assert roots.value(quantity="root of g2") == pytest.approx(2.177319, abs=1e-6)
    assert roots.value(quantity="a* at b = 0.001") == pytest.approx(2.17589, abs=1e-5)
    g = measured("OPTIMAL_G").select(epsilon=1.0)
    assert g.value(delta=1e-6, what="g, stable form") == pytest.approx(3.718299, abs=1e-6)
    assert g.value(delta=1e-26, what="g as printed") == 0.0  # all digits cancel
    assert max(abs(row.value) for row in g.select(what="eq. 57 at it, of its largest part").rows) < 1e-12
    corners = measured("CORNERS")
    beyond = {2: 1.0986, 4: 0.788, 6: 0.647, 10: 0.503, 42: 0.246}
    assert {d: corners.value(d=d, form="Algorithm 4") for d in beyond} == pytest.approx(beyond, abs=1e-3)
    assert corners.value(d=4, scale="unbiased, ties inside") == pytest.approx(6.708, abs=1e-3)


@pytest.mark.parametrize(
    ("number", "experiment", "outcome", "factor", "where", "then"),
    [
        (1, "DELIVERED", "refuted", 1e-6, {"form": "Mechanism-1 as printed"}, "holds"),
        (2, "DELIVERED", "holds", 1.01, {"form": "Algorithm 2", "epsilon": 1.0}, "refuted"),
        (6, "ONE_NUMBER", "holds", 0.05, {"line": "Opt-GM", "epsilon": 2.0}, "refuted"),
        (18, "CATEGORY_VARIANCES", "holds", 1.2, {"line": "SPRR", "epsilon": 0.5}, "refuted"),
        (21, "CATEGORY_VARIANCES", "holds after correction", 1.1, {"line": "OLH", "delta": 1e-7}, "refuted"),
        (30, "DELIVERED", "holds", 0.01, {"form": "C_d delta", "d": 15}, "refuted"),
    ],
)
def test_other_numbers_make_another_verdict(number, experiment, outcome, factor, where, then):
    numbers = measured(experiment)
    judge = claim(number).judge
    assert judge(numbers).outcome == outcome
    assert judge(changed(numbers, factor, **where)).outcome == then


def test_a_difference_within_the_noise_decides_nothing():
    rows = [
        Row({"model": "linear regression", "data": "BR", "epsilon": 1.0, "line": line}, value, 0.01, 3)
        for line, value in (
            ("Mechanism-1", 0.20),
            ("Mechanism-2", 0.21),
            ("Opt-GM", 0.22),
            ("Opt-GM, sensitivity 2", 0.3),
        )
    ]
    judge = claim(25).judge
    assert judge(Measured(tuple(rows))).outcome == "cannot be decided here"
    better = [row._replace(value=row.value + (row.where["line"] == "Opt-GM")) for row in rows]
    assert judge(Measured(tuple(better))).outcome == "holds"
    worse = [row._replace(value=row.value - (row.where["line"] == "Opt-GM")) for row in rows]
    assert judge(Measured(tuple(worse))).outcome == "refuted"


def test_results_depend_on_the_code_of_functions_that_a_measurement_calls(monkeypatch):
    categories = described("categories")
    before = code.__wrapped__(categories.zipf_frequencies)
    for function in ("frequency_mechanisms", "squared_errors", "best_g"):  # with a cache, without, of another file
        monkeypatch.setattr(inspect, "getsource", partial(edited, ORIGINAL_SOURCE, function))
        assert code.__wrapped__(categories.zipf_frequencies) != before
    monkeypatch.setattr(inspect, "getsource", partial(edited, ORIGINAL_SOURCE, "real_frequencies"))
    assert code.__wrapped__(categories.zipf_frequencies) == before


def edited(source, function: str, thing) -> str:
    """The source of something; of the function of this name, with a line more."""
    text = source(thing)
    return text + "\n    return None\n" if thing.__name__ == function else text
