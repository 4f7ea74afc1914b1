"""Every registered mechanism keeps the contract.

What guards privacy and truth exactly (certificates, channels, samplers, estimators, lanes, stored integers, forged
reports) runs over every example: there is one for each branch of the code. What only shows that the shared machinery
was reached (plumbing, coverage, Arrow, bad values, ...) runs over the first example of each name, and over all of them
among the `wide` tests.
"""

from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest

import dither
from dither import testing as checks
from dither.core import domains
from dither.core.mechanism import Mechanism
from dither.core.structure import POINTS
from dither.errors import DitherError, DomainError, ParameterError, ReportError, TallyError
from dither.mechanisms import load
from marks import wide

EXAMPLES = checks.examples()
every = pytest.mark.parametrize("mechanism", EXAMPLES, ids=checks.label)


def first_of(examples: list[Mechanism]) -> pytest.MarkDecorator:
    """The first example of each name; the others are among the wide tests."""
    names = {type(mechanism): mechanism for mechanism in reversed(examples)}
    marked = [each if each is names[type(each)] else wide(each) for each in examples]
    return pytest.mark.parametrize("mechanism", marked, ids=checks.label)


first = first_of(EXAMPLES)
each_name = pytest.mark.parametrize("name", list(dither.registry))


def test_the_registry_has_the_public_names():
    assert {"GRR", "Unary", "LocalHash", "SubsetSelection", "Hadamard"} <= set(dither.registry)
    for name, cls in dither.registry.items():
        assert cls.__name__ == name
        assert getattr(dither, name) is cls
        assert cls.examples
        assert cls.__doc__


@every
def test_certificate(mechanism: Mechanism):
    checks.check_certificate(mechanism)


# Seconds each. Their cohorts are drawn as those of single items, their pairs as those of a smaller table, their weights
# as those of another budget: each has an example beside it that shows the same.
SLOW = [
    dither.CoCo(d=3, s=2, epsilon=1.0, t=6, goal="mean"),
    dither.Collision(d=3, s=2, epsilon=1.0, t=6, cohorts=40),
    dither.Hybrid(4.0),
    dither.Piecewise(4.0),
    dither.UnitVector(d=64, epsilon=2.0),
    dither.CoCo(d=3, s=2, epsilon=1.0, cohorts=40),
]
enumerable = pytest.mark.parametrize(
    "mechanism", [wide(each) if each in SLOW else each for each in EXAMPLES], ids=checks.label
)


@pytest.mark.parametrize(
    "mechanism",
    [wide(each) if each in (*SLOW, dither.SampledDuchi(d=20, epsilon=4.0)) else each for each in EXAMPLES],
    ids=checks.label,
)
def test_what_a_report_is_worth(mechanism: Mechanism):
    assert mechanism.report_worth()
    checks.check_influence(mechanism)


@every
def test_axes_of_a_table(mechanism: Mechanism):
    done = checks.check_axes(mechanism)
    known = (dither.GRR, dither.Unary, dither.SubsetSelection, dither.LGRR, dither.LUnary)
    assert done == (type(mechanism) in known)


@first
def test_what_honest_reports_keep_within_bounds(mechanism: Mechanism):
    checks.check_honest_sums(mechanism)


@enumerable
def test_channel(mechanism: Mechanism):
    checks.check_channel(mechanism)


@enumerable
def test_sampler_over_all_tapes(mechanism: Mechanism):
    enumerated = checks.check_sampler(mechanism)
    # Reports of several reports may have too many tapes; the first example of each name never has.
    first = type(mechanism)(**type(mechanism).examples[0])
    assert enumerated or mechanism != first or mechanism.structure == POINTS  # too many, and tests of their own


@enumerable
def test_estimator_by_enumeration(mechanism: Mechanism):
    checks.check_estimator(mechanism)


@first
def test_merging(mechanism: Mechanism):
    checks.check_merging(mechanism)


@first
def test_plumbing(mechanism: Mechanism):
    checks.check_plumbing(mechanism)


@first
def test_coverage(mechanism: Mechanism):
    check_coverage(mechanism, 500)


@pytest.mark.wide
@every
def test_coverage_of_many_collections(mechanism: Mechanism):
    check_coverage(mechanism, 1500)


def check_coverage(mechanism: Mechanism, collections: int) -> None:
    """Of collections that are large enough for the normal approximation."""
    users = 200 if mechanism.takes == domains.BALL else 1000  # many numbers make for enough reports
    checks.check_coverage(mechanism, checks.population(mechanism, users), collections=collections, seed=11)


@every
def test_outputs_are_all_reports(mechanism: Mechanism):
    checks.check_outputs(mechanism)


@every
def test_stored_and_loaded_mechanisms_are_the_same(mechanism: Mechanism):
    checks.check_stored(mechanism)


@first
def test_reports_survive_arrow_and_parquet(mechanism: Mechanism, tmp_path):
    inputs = mechanism.inputs()
    reports = mechanism.randomize(inputs[np.arange(257) % len(inputs)], seed=3)
    parquet.write_table(reports.to_arrow(), tmp_path / "reports.parquet", row_group_size=100)
    for table in (reports.to_arrow(), parquet.read_table(tmp_path / "reports.parquet")):
        again = dither.Reports.from_arrow(table)
        assert (again == reports).all()
        assert (again.maker, again.simulated) == (mechanism.fingerprint, True)
        assert mechanism.tally(again) == mechanism.tally(reports)


@first
def test_secure_reports_differ_and_promise(mechanism: Mechanism):
    checks.check_secure(mechanism)


@first
def test_bad_values_are_refused_and_not_quoted(mechanism: Mechanism):
    checks.check_values(mechanism)


SECRET = 987654321
SPARSE = [mechanism for mechanism in EXAMPLES if mechanism.takes == domains.SPARSE]


BAD_KEYS: list[Any] = [
    [{}, {SECRET: 1.0}],
    [{}, {-SECRET: 1.0}],
    [{}, {str(SECRET): 1.0}],
    [{}, {0: str(SECRET)}],
    [{}, {0.5: SECRET}],
    [{}, {0: float(SECRET), SECRET: 0.5}],
    [{}, dict.fromkeys(range(5), 0.987654321)],
]


@first_of(SPARSE)
def test_bad_keys_are_refused_and_not_quoted(mechanism: Mechanism):
    for vectors in BAD_KEYS:
        with pytest.raises(DomainError, match="row 1") as caught:
            mechanism.randomize(vectors)
        assert str(SECRET) not in checks.messages(caught.value), vectors
        assert len(mechanism.randomize(vectors, invalid="substitute")) == 2


CATEGORICAL = [mechanism for mechanism in EXAMPLES if mechanism.takes == domains.CATEGORIES]
NUMERIC = [
    mechanism
    for mechanism in EXAMPLES
    if mechanism.takes in (domains.NUMBERS, domains.RECORDS) and mechanism.reading.domain.coordinates
]


@first_of(CATEGORICAL)
def test_a_substitute_stands_in_for_bad_values(mechanism: Mechanism):
    good = mechanism.randomize([0, 1, 1, 0], seed=9)
    for junk in (SECRET, None, "x", 0.5, float("nan"), True, 2**70, b"x", 1j, object()):
        assert (mechanism.randomize([0, junk, 1, 0], seed=9, invalid=1) == good).all()
    for values in (np.array([0.0, np.nan, 1.0, 0.0]), np.array([0, -1, 1, 0]), np.array([0, 99, 1, 0], dtype=np.uint8)):
        assert (mechanism.randomize(values, seed=9, invalid=1) == good).all()
    ones = mechanism.randomize([1, 1], seed=9)
    for junk in (["a", "b"], [b"a", b"b"], [0.5, 1.0], np.array([1, 2], dtype="datetime64[s]"), [True, False]):
        assert (mechanism.randomize(junk, seed=9, invalid=1) == ones).all()
    for invalid in ("clip", -1, SECRET, 1.5):
        with pytest.raises(ParameterError):
            mechanism.randomize([0], invalid=invalid)


@first_of(NUMERIC)
def test_clipping_has_to_be_asked_for(mechanism: Mechanism):
    def randomized(column, **options):
        return mechanism.randomize(checks.as_values(mechanism, column), **options)

    good = randomized([0.5, 1.0, -1.0, 0.0, 0.0], seed=9)
    for junk in (float("nan"), None, "x", b"x", 1j, True, object()):
        assert (randomized([0.5, SECRET, -float("inf"), junk, 0], seed=9, invalid="clip") == good).all()
    assert (randomized(np.array([0.5, 7, -7, np.nan, 0]), seed=9, invalid="clip") == good).all()
    for invalid in ("wrap", 0, None):
        with pytest.raises(ParameterError):
            randomized([0.5], invalid=invalid)
    for outside in (1.0000001, -1.0000001, float("nan"), float("inf")):
        with pytest.raises(DomainError, match="row 1"):
            randomized([0.0, outside])


@first_of([each for each in EXAMPLES if each.takes == domains.BALL])
def test_long_vectors_are_clipped_if_asked_for(mechanism: Mechanism):
    d = mechanism.reading.domain.d  # type: ignore[attr-defined]
    good = mechanism.randomize(np.array([[1.0] + [0.0] * (d - 1), [0.0] * d, [0.25] + [0.0] * (d - 1)]), seed=9)
    for long in (7.0, 1e300, 2):
        for junk in (float("nan"), None, "x", float("inf"), 1j):
            rows = [[long] + [0.0] * (d - 1), [0.5] * (d - 1) + [junk], [0.25] + [0.0] * (d - 1)]
            assert (mechanism.randomize(rows, seed=9, invalid="clip") == good).all()
            with pytest.raises(DomainError):
                mechanism.randomize(rows)


@first
def test_a_single_value_is_one_report(mechanism: Mechanism):
    reports = mechanism.randomize(mechanism.inputs()[1])
    assert reports.shape == (1,)
    assert mechanism.tally(reports[0]).n == 1


@first
def test_forged_reports_are_refused(mechanism: Mechanism):
    checks.check_reports(mechanism)


@first
def test_what_one_report_adds(mechanism: Mechanism):
    assert checks.check_tallies(mechanism)


@first
def test_what_belongs_to_others_is_refused(mechanism: Mechanism):
    other = dither.GRR(k=77, epsilon=0.3)
    reports = other.randomize([1, 2], seed=1)
    with pytest.raises(ReportError):
        mechanism.tally(reports)
    with pytest.raises(TallyError):
        mechanism.estimate(other.tally(reports))
    with pytest.raises(TallyError):
        sum([mechanism.tally(mechanism.randomize(mechanism.inputs()[:1], seed=1)), other.tally(reports)])


BAD_PARAMETERS: list[dict[str, Any]] = [
    {"epsilon": 0},
    {"epsilon": -1.0},
    {"epsilon": float("nan")},
    {"epsilon": float("inf")},
    {"epsilon": "1"},
    {"epsilon": True},
    {"epsilon": None},
    {"k": 1},
    {"k": 0},
    {"k": -3},
    {"k": 2.5},
    {"k": True},
    {"k": 2**80},
    {"delta": -1e-9},
    {"delta": 1.0},
    {"delta": float("nan")},
    {"weights": (0, 1)},
    {"weights": (1.5, 1)},
    {"d": 0},
    {"d": -1},
    {"d": 2.5},
    {"d": True},
    {"m": 0},
    {"m": 99},
    {"m": 1.0},
    {"base": "Nonsense"},
    {"base": "Duchi(epsilon=1.0)"},
    {"base": "GRR"},
    {"base": "GRR(k=3, size=2)"},
    {"base": "import os"},
    {"base": ["Duchi"] * 7},
    {"base": 3},
    {"base": "Sampled(base='Duchi', d=2)"},
    {"groups": {}},
    {"groups": 3},
    {"groups": {"a": 1.0, "b": -1.0}},
    {"groups": {"all": 1.0}},
    {"groups": [("a", 1.0), ("a", 2.0)]},
    {"groups": {"a": (1.0, 0.5, 0.5)}},
    {"groups": {"a": (1.0, 0.0, 2.0)}},
    {"groups": {1: 1.0}},
]


@each_name
def test_bad_parameters_are_refused(name: str):
    cls = dither.registry[name]
    example = dict(cls.examples[0])
    known = set(cls(**example).to_dict())
    for change in BAD_PARAMETERS:
        if set(change) <= known and (cls.takes, change) != (domains.GROUPS, {"epsilon": None}):
            with pytest.raises(DitherError):
                pytest.fail(f"{change} made {cls(**{**example, **change})}")


@first
def test_epsilon_within_1e_9_over_the_range(mechanism: Mechanism):
    deltas = {mechanism.delta} if mechanism.needs_delta else {0.0, mechanism.delta}
    for epsilon in (1e-6, 1e-3, 0.1, 1 / 3, 1.0, 2.7, 5.0, 10.0, 16.0):
        for change in [{"delta": delta} for delta in deltas] if "delta" in mechanism.to_dict() else [{}]:
            checks.check_certificate(checks.with_epsilon(mechanism, epsilon, **change))


@first
def test_above_16_the_certificate_states_what_is_delivered(mechanism: Mechanism):
    free = {"q": None} if "q" in mechanism.to_dict() else {}
    for epsilon in (17.0, 40.0, 100.0, 5000.0):
        promise = checks.with_epsilon(mechanism, epsilon, **free).guarantee
        assert 16 < promise.epsilon <= epsilon


@first
def test_nothing_raw_in_representations(mechanism: Mechanism):
    text = (
        repr(mechanism)
        + str(mechanism.guarantee)
        + repr(mechanism.tally(mechanism.randomize(mechanism.inputs()[1:2], seed=4)))
    )
    assert "weights" not in text
    assert len(text) < 500


@first
def test_the_same_mechanism_with_another_epsilon_is_another_mechanism(mechanism: Mechanism):
    other = checks.with_epsilon(mechanism, mechanism.epsilon * 0.9)
    if other.dtype == mechanism.dtype:
        with pytest.raises(ReportError, match="another mechanism"):
            mechanism.tally(other.randomize(mechanism.inputs()[:2], seed=1))
    stored = mechanism.to_dict()
    checks.first_integers(stored)[0] -= 1
    assert load(stored).fingerprint != mechanism.fingerprint


@first
def test_a_refusal_names_the_report(mechanism: Mechanism):
    good = mechanism.inputs()[:2]
    reports = np.asarray(mechanism.randomize(good[np.arange(50_000) % 2], seed=1)).copy()
    reports.view(np.uint8).reshape(50_000, -1)[45_678] = 255  # far enough for another chunk, on another thread
    with pytest.raises(ReportError, match="report 45678"):
        mechanism.tally(reports)


@every
def test_no_word_decides_twice(mechanism: Mechanism):
    checks.check_lanes(mechanism)


@every
def test_every_draw_has_a_lane_of_its_own(mechanism: Mechanism):
    if checks.component_of(mechanism) is not None:  # the law must fit a word
        short, bits, _ = checks.short_sparse(mechanism, {})
        own = 4 + (mechanism.s > 1 and mechanism.paired) + mechanism.sample  # type: ignore[attr-defined]
        assert len(checks.lanes(short, bits)) == own
        return
    lanes = checks.lanes(mechanism, 8)
    words = {"Unary": 1 + len(getattr(mechanism, "_digits", ())), "LocalHash": 2, "SubsetSelection": 2, "Hypercube": 3}
    words |= {"PrivKV": 3, "PCKV_GRR": 3, "PCKV_UE": 5, "SignSum": 3, "Succinct": 4}
    windows = 1 if mechanism.takes == domains.CATEGORIES else 2
    assert len(lanes) >= words.get(type(mechanism).__name__, windows)
