"""What a tally claims is held against its plan: when it is loaded, merged, added to, and before an estimate."""

import json
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dither
from dither import Tally
from dither.engines.report_rows import nothing
from dither.errors import EmptyError, ParameterError, TallyError
from dither.planning import Plan, PlanTally, plan_files

pytestmark = pytest.mark.filterwarnings("ignore::dither.errors.BudgetWarning")

JOBS = ["nurse", "driver", "teacher", "other"]
PLAN = dither.plan(
    dither.Schema({"age": dither.Ordinal(0, 9), "income": dither.Numeric(0, 100), "job": dither.Categorical(JOBS)}),
    epsilon=1.0,
    users=3000,
)
NAME = "histogram(job)"
KEY = bytes(range(32))


def honest(users: int = 3000) -> PlanTally:
    rng = np.random.default_rng(1)
    table = {
        "age": rng.integers(0, 10, users),
        "income": rng.uniform(0, 100, users),
        "job": np.array(JOBS)[rng.integers(0, 4, users)],
    }
    return PLAN.tally(PLAN.randomize(table, seed=1))


def liar(n: int, count: int) -> PlanTally:
    """One question with few reports and large counts, simulated as the honest ones; nothing about the others."""
    empty = nothing(PLAN)
    counts = empty.parts[NAME].counts.copy()
    counts[0] = count
    return replace(empty, parts={**empty.parts, NAME: replace(empty.parts[NAME], n=n, counts=counts, simulated=True)})


def test_one_report_does_not_outweigh_three_thousand():
    """n = 1 with counts of a million, merged with 3,000 honest reports, was a share of 6,447 with an error of .066."""
    forged = liar(1, 10**6)
    words = r"histogram\(job\): no reports add up to this tally: count 0 is 1,000,000, and 1 report adds at most 1"
    with pytest.raises(TallyError, match=words):
        PLAN.check_tally(forged)
    with pytest.raises(TallyError, match=words):
        PLAN.load_tally(forged.to_bytes())
    with pytest.raises(TallyError, match=rf"tally 1: {words}.*; nothing was merged"):
        PLAN.merge([honest(), forged])
    with pytest.raises(TallyError, match=r"histogram\(job\): no reports add up to this tally"):
        PLAN.estimate(honest().plus(forged, allow_simulated=True))  # whoever adds up without the plan finds out here


def test_a_claim_that_a_sum_would_hide_is_found_before_it_is_added():
    mechanism = dither.Unary(k=4, epsilon=1.0)
    total = mechanism.tally(mechanism.randomize(np.arange(3000) % 4, seed=1))
    forged = Tally(mechanism.fingerprint, 1, np.array([400, 0, 0, 0]))
    mechanism.check_tally(total + forged)  # other reports can add up to that
    with pytest.raises(TallyError):
        mechanism.check_tally(forged)
    with pytest.raises(TallyError, match="tally 0"):
        PLAN.merge([liar(1, 400), honest()])


def test_honest_tallies_pass_and_merge_to_the_bit():
    parts = [honest(100), honest(1000), nothing(PLAN)]
    assert PLAN.merge(parts) == sum(parts)
    assert PLAN.merge(iter(parts[:1])) == parts[0]
    assert PLAN.load_tally(parts[0].to_bytes()) == parts[0]
    assert PLAN.load_tally(parts[0].to_bytes(key=KEY), key=KEY) == parts[0]
    with pytest.raises(TallyError, match="no seal"):
        PLAN.load_tally(parts[0].to_bytes(), key=KEY)
    with pytest.raises(EmptyError, match="no tallies to merge"):
        PLAN.merge([])


@pytest.mark.parametrize("name", [part.name for part in PLAN.parts])
def test_the_question_is_named(name):
    tally = honest()
    part = tally.parts[name]
    for change in ({"counts": part.counts + 1}, {"counts": part.counts[:-1]}, {"n": part.n + 1}, {"mechanism": "ab"}):
        wrong = replace(tally, parts={**tally.parts, name: replace(part, **change)})
        with pytest.raises(TallyError) as caught:
            PLAN.estimate(wrong)
        assert str(caught.value).startswith(f"{name}: ")


def test_counts_of_no_reports_are_refused_without_a_plan():
    with pytest.raises(TallyError, match=r"histogram\(job\): .* there are counts, and no reports"):
        liar(0, 5)


def test_more_reports_than_64_bits_count():
    most = 2**64 - 1
    assert Tally.from_bytes(Tally("abc", most, np.array([1])).to_bytes()).n == most
    for make in (
        lambda: Tally("abc", most + 1, np.array([1])),
        lambda: Tally("abc", -1, np.array([1])),
        lambda: Tally("abc", most, np.array([1])) + Tally("abc", 1, np.array([1])),
        lambda: replace(honest(10), files={"ab" * 32: most + 1}),
    ):
        with pytest.raises(TallyError, match=r"2\^64|more reports than any tally"):
            make()


@pytest.mark.parametrize("counts", [np.array([2**63], dtype=np.uint64), np.array([2**70], dtype=object)])
def test_counts_that_64_bits_would_turn_around(counts):
    with pytest.raises(TallyError, match="fits 64 bits"):
        Tally("abc", 1, counts)


def test_no_question_has_more_reports_than_there_are_users():
    """Where reports of some questions are missing, at least as many users have reported as the largest has reports."""
    assert PLAN.questions_per_user == 1
    assert PLAN.users_behind([10, 20, 30]) == 60
    every = replace(PLAN, questions_per_user=3)
    assert every.users_behind([100, 100, 100]) == 100
    assert every.users_behind([100, 50, 98]) == 100


# Sizes ---------------------------------------------------------------------------------------------------------------


def stored_with_keys(keys: int, mechanism: str, **parameters: Any) -> str:
    """The plan of a few keys as somebody forges it: for as many as they like, with a right hash."""
    made = dither.registry[mechanism](d=keys, s=4, epsilon=1.0, **parameters)
    small = dither.plan(dither.Schema({"films": dither.KeyValue(keys=64, size=4)}), epsilon=1.0, users=100_000)
    stored = json.loads(small.to_json())
    stored["schema"]["films"]["keys"] = keys
    stored["parts"] = stored["parts"][:1]
    stored["parts"][0]["mechanism"] = made.to_dict()
    stored["hash"] = plan_files.digest({name: each for name, each in stored.items() if name not in plan_files.BESIDE})
    del stored["certificate"]
    return json.dumps(stored)


@pytest.mark.parametrize(
    ("mechanism", "parameters"),
    [
        ("PCKV_GRR", {}),
        ("PCKV_AGRR", {}),
        ("PrivKV", {}),
        ("Collision", {}),
        ("Collision", {"cohorts": 64}),
        ("CoCo", {"cohorts": 64}),
        ("SignSum", {}),
        ("Succinct", {}),
    ],
)
def test_a_plan_of_too_many_keys_is_refused_before_there_is_memory_for_it(mechanism, parameters):
    text = stored_with_keys(2**30, mechanism, **parameters)
    tracemalloc.start()
    try:
        with pytest.raises(ParameterError, match=r"presence\(films\) and .*: .* does not fit; ask for fewer keys"):
            Plan.from_json(text)
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()
    made = dither.registry[mechanism](d=2**30, s=4, epsilon=1.0, **parameters)
    with pytest.raises(ParameterError, match="does not fit; ask for fewer keys"):
        made.tally(made.randomize([{5: 1.0}], seed=1))


def test_the_same_plan_of_few_keys_is_read():
    """What the forged ones differ in is the number of keys."""
    assert len(Plan.from_json(stored_with_keys(64, "PCKV_GRR")).parts) == 1


def test_the_planner_refuses_what_could_not_be_read_back():
    with pytest.raises(ParameterError, match="does not fit; ask for fewer keys"):
        dither.plan(dither.Schema({"films": dither.KeyValue(keys=2**30, size=4)}), epsilon=1.0, users=100_000)


def test_cohorts_by_hash_values_have_to_fit():
    with pytest.raises(ParameterError, match=r"a tally of 2\^40 counts does not fit, .*take fewer cohorts"):
        dither.LocalHash(k=1000, epsilon=1.0, g=1 << 16, cohorts=1 << 24)


def test_all_the_tallies_of_a_plan_have_to_fit_together(monkeypatch):
    from dither.planning import device_plan

    monkeypatch.setattr(device_plan, "MOST_COUNTED", 5)
    with pytest.raises(ParameterError, match="does not fit; ask fewer questions"):
        Plan.from_json(PLAN.to_json())
