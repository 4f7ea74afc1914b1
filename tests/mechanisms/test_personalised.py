"""Personalised beyond the contract: regions scale, groups pool in two ways, and a wrong choice is never quoted."""

import json
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

import dither
from dither import Duchi, Laplace, Personalised, Piecewise
from dither import testing as checks
from dither.errors import DitherError, DomainError, ParameterError, ReportError
from dither.mechanisms import load
from dither.testing import messages

GROUPS = {"careful": 0.5, "generous": 4.0}
REGIONS = {"low": (1.0, -1.0, 0.0), "high": (1.0, 0.5, 1.0), "any": 3.0}
SECRET = 0.987654321


def estimate(mechanism: Personalised, value, group, seed: int = 1) -> Any:
    """The estimate of a simulated collection."""
    return mechanism.estimate(mechanism.tally(mechanism.randomize({"value": value, "group": group}, seed=seed)))


# What is promised ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", ["Duchi", "Piecewise", "SquareWave", "Laplace"])
def test_every_group_keeps_its_own_epsilon(base):
    mechanism = Personalised(base, REGIONS)
    registry: Any = dither.registry
    alone = {name: registry[base](epsilon=epsilon) for name, epsilon in (("low", 1.0), ("high", 1.0), ("any", 3.0))}
    assert mechanism.guarantees == {name: each.guarantee for name, each in alone.items()}
    assert mechanism.epsilon == 3.0
    assert mechanism.guarantee == alone["any"].guarantee
    assert mechanism.channel().ratio() == Fraction(alone["any"].channel().ratio())
    assert dither.privacy.certify(mechanism) == mechanism.guarantee


def test_values_of_one_region_are_hidden_and_regions_are_not():
    mechanism = Personalised("Duchi", REGIONS)
    rows = [mechanism.channel().row(x) for x in range(6)]
    for block in (rows[:2], rows[2:4], rows[4:]):
        shown = [y for y, p in enumerate(block[0]) if p]
        assert shown == [y for y, p in enumerate(block[1]) if p]
        assert len(shown) == 2


# Regions -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("base", "alone"), [("Piecewise", Piecewise), ("Duchi", Duchi), ("Laplace", Laplace)])
def test_a_region_scales_value_and_variance(base, alone):
    mechanism = Personalised(base, {"half": (2.0, 0.0, 1.0), "tenth": (2.0, -0.3, -0.1), "whole": 2.0})
    inside = np.array([-1.0, -0.25, 0.0, 0.6, 1.0])
    own = alone(2.0).moments(inside)
    for number, (centre, half) in enumerate([(0.5, 0.5), (-0.2, 0.1), (0.0, 1.0)]):
        _, _, low, high = mechanism.groups[number]
        pairs = {"value": np.clip(centre + half * inside, low, high), "group": [number] * 5}
        found = mechanism.moments(pairs)
        np.testing.assert_allclose(found.variance, half**2 * own.variance, rtol=1e-9)
        np.testing.assert_allclose(found.third, half**3 * own.third, rtol=1e-9)
        np.testing.assert_allclose(found.bias, half * own.bias, atol=1e-12)
    assert mechanism.reading.worst_variance() == pytest.approx(alone(2.0).reading.worst_variance())
    # In production: unbiased on the scale of the region, within 6.5 standard errors (false alarm 8e-11 each).
    group = np.arange(150_000) % 3
    value = np.array([0.5, -0.2, 0.0])[group] + np.array([0.5, 0.1, 1.0])[group] * np.linspace(-0.9, 0.7, 150_000)
    found = estimate(mechanism, value, group)
    for number, name in enumerate(("half", "tenth", "whole")):
        truth = value[group == number].mean()
        assert abs(found[name].value - truth) < 6.5 * found[name].stderr
        true = (
            mechanism.moments({"value": value[group == number], "group": group[group == number]}).variance.mean()
            / 50_000
        ) ** 0.5
        # A sign has no magnitude: its error bar takes the squared mean for the mean square, and is a little too wide.
        assert 0.98 * true < found[name].stderr < (1.1 if base == "Duchi" else 1.02) * true


@pytest.mark.parametrize(
    ("value", "group"), [(0.1, "low"), (0.4999, "high"), (-1.0, "high"), (-2.0, "any"), (float("nan"), "any")]
)
def test_a_value_outside_its_region_is_refused_or_moved_to_its_end(value, group):
    mechanism = Personalised("Piecewise", REGIONS)
    names = ["any", "any", group]
    with pytest.raises(DomainError, match="row 2"):
        mechanism.randomize({"value": [0.0, 1.0, value], "group": names})
    end = {"low": 0.0, "high": 0.5, "any": 0.0 if np.isnan(value) else -1.0}[group]
    clipped = mechanism.randomize({"value": [0.0, 1.0, value], "group": names}, seed=3, invalid="clip")
    assert (clipped == mechanism.randomize({"value": [0.0, 1.0, end], "group": names}, seed=3)).all()


def test_the_ends_of_a_region_belong_to_it():
    mechanism = Personalised("Piecewise", {"odd": (1.0, 0.1, 0.3), "third": (1.0, -1 / 3, 1 / 3)})
    reports = mechanism.randomize({"value": [0.1, 0.3, -1 / 3, 1 / 3], "group": ["odd", "odd", "third", "third"]})
    assert mechanism.valid(reports).all()
    assert len(mechanism.inputs()) == mechanism.channel().shape[0]
    assert mechanism.valid(mechanism.randomize(mechanism.inputs())).all()


# Choices -------------------------------------------------------------------------------------------------------------


def test_groups_by_number_or_by_name_in_any_table():
    mechanism = Personalised("Duchi", GROUPS)
    value, numbers = np.array([0.1, -0.4, 0.9, 0.0]), np.array([0, 1, 1, 0])
    names = np.array(["careful", "generous"])[numbers]
    reports = mechanism.randomize({"value": value, "group": numbers}, seed=1)
    record = np.zeros(4, dtype=[("group", "i8"), ("value", "f4"), ("other", "f8")])
    record["value"], record["group"] = value, numbers
    forms = [
        {"value": value.tolist(), "group": names.tolist()},
        {"value": value, "group": names},
        {"value": value, "group": names.astype(object)},
        {"value": value, "group": numbers.tolist()},
        {"value": value, "group": numbers.astype(np.uint8)},
        {"value": value, "group": numbers.astype(object)},
        {"value": tuple(value), "group": tuple(names), "more": [1, 2, 3, 4]},
        {"value": value, "group": [0, "generous", 1, "careful"]},
        {"value": value, "group": np.array([0, "generous", 1, "careful"], dtype=object)},
        pd.DataFrame({"group": names, "value": value}),
        pd.DataFrame({"group": pd.Categorical(names), "value": value}),
        pd.DataFrame({"group": numbers, "value": value}, index=[9, 4, 4, 1]),
    ]
    for form in forms:
        assert (mechanism.randomize(form, seed=1) == reports).all()
    again = mechanism.randomize(record, seed=1)
    assert (again["group"] == reports["group"]).all()
    assert mechanism.randomize({"value": 0.1, "group": "careful"}).shape == (1,)
    assert mechanism.randomize({"value": [], "group": []}).shape == (0,)


def test_a_number_is_never_taken_for_a_name():
    mechanism = Personalised("Duchi", {"1": 1.0, "0": 2.0})
    for groups, expected in (([1, 0], [1, 0]), (["1", "0"], [0, 1]), ([1, "1"], [1, 0])):
        assert mechanism.randomize({"value": [0.0, 0.0], "group": groups})["group"].tolist() == expected


@pytest.mark.parametrize(
    "group",
    [
        ["careful", "Generous"],
        ["careful", "hidden-987654"],
        ["careful", ""],
        ["careful", None],
        [0, 2],
        [0, -1],
        [0, 1.0],
        [0, 987654],
        [0, 2**70],
        [0, float("nan")],
        [False, True],
        np.array([False, True]),
        np.array([0.0, 1.0]),
        [b"careful", b"generous"],
        [["careful"], ["generous"]],
        [["careful"], ["generous", "hidden-987654"]],
        np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]"),
        [0],
        [0, 1, 1],
        "ab",
        None,
        5,
        {"a": 1, "b": 2},
    ],
    ids=lambda group: str(group)[:40],
)
def test_unknown_groups_are_refused_and_not_quoted(group):
    mechanism = Personalised("Duchi", GROUPS)
    for invalid in ("error", "clip"):
        with pytest.raises(DomainError) as caught:
            mechanism.randomize({"value": [SECRET, 0.0], "group": group}, invalid=invalid)
        assert "987654" not in messages(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        {"value": [SECRET]},
        {"group": [0]},
        {},
        [SECRET],
        np.array([SECRET]),
        SECRET,
        None,
        "987654321",
        pd.DataFrame({"value": [SECRET]}),
        np.zeros(2, dtype=[("value", "f8"), ("class", "u1")]),
        {"value": [[SECRET]], "group": [0]},
        {"value": ["987654321"], "group": [0]},
        {"value": [987654321], "group": [0]},
        {"value": [None], "group": [0]},
        {"value": [[0.1], [0.2, SECRET]], "group": [0, 1]},
        {"value": [10**400], "group": [0]},
    ],
    ids=lambda values: str(values)[:40],
)
def test_what_is_no_choice_is_refused_and_not_quoted(values):
    with pytest.raises(DomainError) as caught:
        Personalised("Duchi", GROUPS).randomize(values)
    assert "98765" not in messages(caught.value)


def test_other_rules_are_refused():
    for invalid in ("wrap", 0, None, ["clip", "clip"]):
        with pytest.raises(ParameterError):
            Personalised("Duchi", GROUPS).randomize({"value": [0.0], "group": [0]}, invalid=invalid)


@pytest.mark.parametrize(
    "groups",
    [
        {},
        [],
        None,
        3,
        "ab",
        ["ab"],
        [[]],
        [("a",)],
        {"a": None},
        {"a": "1"},
        {"a": 0.0},
        {"a": float("nan")},
        {"a": True},
        {"a": ()},
        {"a": (1.0, 0.5, 0.5)},
        {"a": (1.0, 0.5, 0.0)},
        {"a": (1.0, -1.5, 0.0)},
        {"a": (1.0, float("nan"), 0.0)},
        {"a": (1.0, 0.0, 1.0, 2.0)},
        {"a": (1.0, True, 1.0)},
        {"a": (1.0, "0", "1")},
        {"": 1.0},
        {3: 1.0},
        {"all": 1.0},
        {"weighted": 1.0},
        [("a", 1.0), ("a", 2.0)],
        {str(i): 1.0 for i in range(257)},
    ],
    ids=lambda groups: str(groups)[:40],
)
def test_groups_that_make_no_sense_are_refused(groups):
    with pytest.raises(DitherError):
        Personalised("Duchi", groups)


@pytest.mark.parametrize(
    "base", ["GRR(k=3)", "Hybrid", "Histogram(base='Duchi', k=3)", "SampledDuchi(d=2)", "Gaussian", "Nonsense", 3]
)
def test_a_base_is_for_one_number_without_delta(base):
    with pytest.raises(ParameterError):
        Personalised(base, GROUPS)


# Pooling -------------------------------------------------------------------------------------------------------------


def test_all_is_unbiased_where_groups_differ_and_weighted_warns():
    # Those who are careful hold high values. Within 6 standard errors: false alarm 2e-9 each.
    mechanism = Personalised("Piecewise", GROUPS)
    group = np.arange(100_000) % 2
    value = np.where(group == 0, 0.8, -0.4)
    found = estimate(mechanism, value, group)
    assert abs(found["all"].value - 0.2) < 6 * found["all"].stderr
    assert abs(found["careful"].value - 0.8) < 6 * found["careful"].stderr
    assert abs(found["generous"].value + 0.4) < 6 * found["generous"].stderr
    assert found["weighted"].stderr < found["all"].stderr
    assert found["weighted"].value < 0  # which is no mean of all users, and says so
    assert "differ by more than their noise" in found["weighted"].explain()
    assert "differ by more" not in found["all"].explain()
    same = estimate(mechanism, np.full(100_000, 0.2), group)
    assert "differ by more" not in same["weighted"].explain()
    assert abs(same["weighted"].value - 0.2) < 6 * same["weighted"].stderr


def test_combinations_are_what_they_say():
    mechanism = Personalised("Piecewise", {"a": 0.5, "b": 2.0, "c": (4.0, 0.0, 0.5)})
    group = np.repeat([0, 1, 2], [1000, 2000, 7000])
    found = estimate(mechanism, np.full(10_000, 0.25), group)
    parts = [found[name] for name in "abc"]
    shares = np.array([0.1, 0.2, 0.7])
    assert [part.n for part in parts] == [1000, 2000, 7000]
    assert found["all"].value == pytest.approx(sum(s * p.value for s, p in zip(shares, parts, strict=True)))
    assert found["all"].stderr == pytest.approx(
        sum((s * p.stderr) ** 2 for s, p in zip(shares, parts, strict=True)) ** 0.5
    )
    precision = np.array([1 / part.stderr**2 for part in parts])
    assert found["weighted"].stderr == pytest.approx(precision.sum() ** -0.5)
    assert found["weighted"].value == pytest.approx(precision @ [part.value for part in parts] / precision.sum())
    assert found["all"].n == found["weighted"].n == 10_000


def test_all_covers_the_truth_as_often_as_it_says():
    # 2,000 collections of 300 users; the mean square of z-scores is 1 +- .032, so .8 to 1.2 are six deviations.
    mechanism = Personalised("Duchi", {"a": 0.5, "b": (2.0, 0.0, 1.0)})
    group = np.arange(300) % 2
    value = np.where(group == 0, np.linspace(-1, 1, 300), 0.5)
    reports = mechanism.randomize({"value": np.tile(value, 2000), "group": np.tile(group, 2000)}, seed=2)
    scores = []
    for part in np.split(reports, 2000):
        pooled: Any = mechanism.estimate(mechanism.tally(part))
        found = pooled["all"]
        scores.append((found.value - value.mean()) / found.stderr)
    assert 0.8 < np.mean(np.square(scores)) < 1.2
    assert abs(np.mean(scores)) < 6 / 2000**0.5 + 0.02


def test_groups_without_a_report_are_left_out():
    mechanism = Personalised("Duchi", {"a": 0.5, "b": 2.0, "c": 1.0})
    found = estimate(mechanism, [0.5, 0.5], ["b", "b"])
    assert list(found) == ["all", "weighted", "b"]
    assert found["all"].value == found["b"].value == found["weighted"].value
    with pytest.raises(KeyError):
        found["a"]
    assert "b: The mean" in found.explain()


def test_tallies_merge_over_groups():
    mechanism = Personalised("Piecewise", REGIONS)
    group = np.arange(3000) % 3
    value = np.array([-0.5, 0.75, 0.1])[group]
    reports = mechanism.randomize({"value": value, "group": group}, seed=1)
    whole = mechanism.tally(reports)
    by_group = [mechanism.tally(reports[np.asarray(reports["group"]) == number]) for number in range(3)]
    assert sum(by_group) == whole
    for number, part in enumerate(mechanism.reading.parts):
        own = np.asarray(reports["value"])[np.asarray(reports["group"]) == number].astype(part.dtype)
        assert mechanism.reading.marginal(whole, number) == part.tally(dither.Reports.wrap(own, "", True))
        assert mechanism.reading.marginal(by_group[number], number) == mechanism.reading.marginal(whole, number)
        assert mechanism.reading.marginal(by_group[number - 1], number).n == 0


def test_reports_of_groups_share_no_words():
    # The same value in groups with the same law: reports of neighbours and of groups are independent.
    mechanism = Personalised("Duchi", {"a": 1.0, "b": 1.0})
    group = np.arange(80_000) % 2
    reports = np.asarray(mechanism.randomize({"value": np.zeros(80_000), "group": group}, seed=1)["value"]).reshape(
        -1, 2
    )
    found = np.bincount(2 * reports[:, 0].astype(int) + reports[:, 1], minlength=4)
    assert ((found - 10_000) ** 2 / 10_000).sum() < chi2.isf(1e-9, 3)
    # And a report does not depend on what others chose.
    alone = mechanism.randomize({"value": np.zeros(10), "group": np.zeros(10, dtype=int)}, seed=1)
    mixed = mechanism.randomize({"value": np.zeros(10), "group": [0, 1] * 5}, seed=1)
    assert (alone[::2] == mixed[::2]).all()


# Stored --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "groups", [GROUPS, REGIONS, [("a", 1.0), ("b", 2.0, -0.5, 0.5)], [["a", [1.0, 0.0, 0.1]]]], ids=str
)
def test_the_stored_form_loads(groups):
    mechanism = Personalised("Piecewise", groups)
    again = load(json.loads(json.dumps(mechanism.to_dict())))
    assert again == mechanism
    assert again.fingerprint == mechanism.fingerprint
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    assert Personalised(mechanism.base, mechanism.groups) == mechanism


def test_stored_integers_of_a_group_are_certified():
    mechanism = Personalised("Duchi", GROUPS)
    stored = mechanism.to_dict()
    stored["weights"] = stored["weights"][::-1]  # the generous integers for the careful
    with pytest.raises(ParameterError):
        load(stored)
    for weights in ([], stored["weights"][:1], [stored["weights"][0]] * 3, 5):
        with pytest.raises(ParameterError):
            load({**stored, "weights": weights})
    with pytest.raises(ParameterError, match="follows from the groups"):
        Personalised("Duchi", GROUPS, epsilon=1.0)


def test_forged_groups_are_refused():
    mechanism = Personalised("Piecewise", {"a": 0.5, "b": 8.0})
    sizes = [part.channel().shape[1] for part in mechanism.reading.parts]
    assert sizes[0] != sizes[1]
    reports = np.asarray(mechanism.randomize({"value": np.zeros(50), "group": np.arange(50) % 2}, seed=1)).copy()
    for number, size in enumerate(sizes):
        for group, value in ((number, size), (2, 0), (255, 0)):
            forged = reports.copy()
            forged[7] = (group, value)
            assert mechanism.valid(forged).tolist() == [i != 7 for i in range(50)]
            with pytest.raises(ReportError, match="report 7 "):
                mechanism.tally(forged)
        fine = reports.copy()
        fine[7] = (number, size - 1)
        assert mechanism.valid(fine).all()


def test_nothing_raw_in_pickles_and_representations():
    mechanism = Personalised("Piecewise", REGIONS)
    reports = mechanism.randomize({"value": [SECRET] * 10, "group": ["any"] * 10})
    tally = mechanism.tally(reports)
    mechanism.estimate(tally)
    for thing in (mechanism, tally):
        assert np.float64(SECRET).tobytes() not in pickle.dumps(thing)
        assert "98765" not in repr(thing)
    assert len(checks.label(mechanism)) < 500
