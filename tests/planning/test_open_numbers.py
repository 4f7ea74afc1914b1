"""Numbers without known ends: their classes, the rule for their ends, and what comes out."""

import math

import numpy as np
import pytest

import dither
from dither import Numeric, Ordinal, Schema
from dither.core.cumulative_estimate import Cumulative
from dither.core.guarantee import NO_GUARANTEE
from dither.errors import ParameterError
from dither.planning.open_numbers import Ends, ends_of
from dither.questions.magnitudes import CENTRE, LEAST, OCTAVES, MagnitudeOf, Magnitudes, edges

pytestmark = pytest.mark.filterwarnings("ignore::dither.errors.BudgetWarning")

SCHEMA = Schema({"income": Numeric(), "age": Ordinal(0, 99)})


def curve_of(values: np.ndarray) -> Cumulative:
    """The curve of magnitudes without noise."""
    classes = Magnitudes(Numeric()).encode(values)
    below = np.cumsum(np.bincount(classes, minlength=2 * OCTAVES + 1))[:-1] / len(values)
    question = MagnitudeOf("x", Magnitudes(Numeric()))
    return Cumulative(below, np.full(below.size, 0.01), len(values), NO_GUARANTEE, **question.on_axis)


def test_classes_are_signs_and_powers_of_two():
    classes = Magnitudes(Numeric())
    values = [0.0, 2.0**LEAST, -(2.0**LEAST), 1.0, 1.999, 2.0, -1.0, 1e300, -1e300, math.inf, -math.inf, 1e-300]
    found = classes.encode(values).tolist()
    assert found == [63, 64, 62, 79, 79, 80, 47, 126, 0, 126, 0, 63]
    assert [classes.encode_value(value) for value in values] == found
    assert classes.encode([None, math.nan], "substitute").tolist() == [CENTRE, CENTRE]
    assert classes.encode_value("x") == CENTRE
    ends = edges()
    for value in (-5.0, -1.0, -0.3, 0.0, 0.7, 1.0, 123.0):
        own = classes.encode_value(value)
        assert own == OCTAVES * 2 or value < ends[own] or (value <= ends[own] and value < 0)
        assert own == 0 or value > ends[own - 1] or (value >= ends[own - 1] and value > 0)


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (np.linspace(0, 1000, 10_001), 0.0, 2048.0),
        (np.linspace(-1000, 0, 10_001), -2048.0, 0.0),
        (np.linspace(-3, 1000, 10_001), 0.0, 2048.0),  # .3% are negative: few
        (np.linspace(-100, 1000, 10_001), -256.0, 2048.0),
        (np.append(np.linspace(0, 1000, 10_001), [1e9] * 50), 0.0, 2048.0),  # half a per cent is far out
        (np.zeros(10), 0.0, 2.0 ** (LEAST + 1)),
        (np.full(10, 1e200), 0.0, 2.0 ** (LEAST + OCTAVES)),
    ],
)
def test_ends_follow_the_rule(values, low, high):
    found = Ends.of(curve_of(values))
    assert (found.low, found.high) == (low, high)
    places, below = found.inside
    assert places[0] == 0
    assert places[-1] == 1
    assert (np.diff(places) > 0).all()
    assert (np.diff(below) >= 0).all()
    share, least, most = found.outside()
    assert share == pytest.approx(
        ((values >= high) & (high > 0)).mean() + (values <= low if low else values < -1e-4).mean(), abs=2e-3
    )
    assert least <= share <= most


def test_one_phase_is_refused_and_says_what_to_do():
    with pytest.raises(ParameterError, match=r"income has no ends.*phases=2"):
        dither.plan(SCHEMA, 1.0, users=1000)
    dither.plan(SCHEMA, 1.0, users=1000, ask=["mean(age)"])  # it is not asked about
    with pytest.raises(ParameterError, match="ends are known"):
        dither.plan(SCHEMA, 1.0, users=1000, phases=2, weights={"mean(age)": 2.0})
    with pytest.raises(ParameterError, match="two finite ends"):
        Numeric(0)
    with pytest.raises(ParameterError, match="no ends yet"):
        Numeric().encode([1.0])


def test_the_second_phase_has_a_domain():
    rng = np.random.default_rng(0)
    income, age = 1000 * np.exp(1.5 * rng.normal(size=60_000)), rng.integers(0, 100, 60_000)
    ask = ["mean(income)", "median(income)", "mean(age)"]
    first = dither.plan(SCHEMA, 2.0, users=60_000, ask=ask, phases=2)
    assert {part.name for part in first.parts} == {"magnitude(income)", "mean(age)"}
    assert dither.Plan.from_json(first.to_json()) == first
    assert "ends of income" in first.explain()
    early = first.tally(first.randomize({"income": income[:15_000], "age": age[:15_000]}, seed=1))
    second = first.next(early)
    domain = second.schema["income"]
    assert isinstance(domain, Numeric)
    assert (domain.low, domain.high) == (ends_of(first, early)["income"].low, ends_of(first, early)["income"].high)
    assert domain.low == 0
    assert 2**14 <= domain.high <= 2**20  # 99% are below 32,800
    assert {str(question) for question in second.questions} >= {*ask}
    assert dither.Plan.from_json(second.to_json()) == second
    late = second.tally(
        second.randomize({"income": income[15_000:], "age": age[15_000:]}, seed=2, invalid="substitute")
    )
    found = second.estimate(late, earlier=[early])
    low, high = found["median(income)"].interval(0.9999)
    assert low <= np.median(income) <= high
    assert (
        abs(found["mean(income)"].value - np.clip(income, 0, domain.high).mean()) < 5.5 * found["mean(income)"].stderr
    )
    assert any("outside of 0 to" in note for note in found["mean(income)"].notes)
    assert "magnitude(income)" in found
    assert found["mean(age)"].n > late.parts["mean(age)"].n


def test_magnitudes_tell_nothing_else():
    question = MagnitudeOf("x", Magnitudes(Numeric()))
    assert question.about is None
    assert list(question.tells(dither.SquareWave(1.0), None, None, 1)) == []  # type: ignore[arg-type]
    assert question.variance_of_mean("x", dither.SquareWave(1.0), 1.0) is None
