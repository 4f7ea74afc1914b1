"""The keys that most users hold, with intervals that hold for all keys at once."""

import numpy as np
import pytest

from dither import KeyValue, Schema
from dither.errors import ParameterError
from dither.planning.trial import truths
from dither.questions import named, questions
from questions.population import SCHEMA, check_single_reports, check_stored, people, planned, tallied

ASKED = "top(films, 2)"
USAGE = r"top asks for a number of keys from 1 to 4, as in top\(films, 3\)"


@pytest.mark.parametrize("text", [ASKED, "top(films,2)", " top ( films , 2 ) "])
def test_it_is_read_and_written(text):
    (one,) = questions(SCHEMA, [text])
    assert str(one) == ASKED
    assert named([one], text) is one
    assert not one.means("top(films, 3)")
    assert not one.means("top(films)")
    assert [str(base) for base in one.rests_on] == ["presence(films)"]


def test_ten_is_usual():
    many = Schema({"sites": KeyValue(50, size=3)})
    (one,) = questions(many, ["top(sites)"])
    assert str(one) == "top(sites, 10)"
    assert one.means("top(sites)")
    assert one.means("top(sites,10)")


@pytest.mark.parametrize("number", ["0", "5", "-1", "2.0", "x", "", "1e1", "\u0662", "10000000000000000000000"])
def test_numbers_of_keys_that_there_are_not(number):
    with pytest.raises(ParameterError, match=USAGE):
        questions(SCHEMA, [f"top(films, {number})"])


def test_no_more_than_a_thousand():
    with pytest.raises(ParameterError, match="from 1 to 1000"):
        questions(Schema({"sites": KeyValue(5000, size=3)}), ["top(sites, 1001)"])


@pytest.mark.parametrize("text", ["top(age, 2)", "top(wealth, 2)", "top", "top(job)"])
def test_bad_questions(text):
    with pytest.raises(ParameterError, match="there is no such question"):
        questions(SCHEMA, [text])


@pytest.mark.parametrize("refine", [None, "auto"])
def test_the_largest_come_first(refine):
    plan = planned(ASKED)
    found = plan.estimate(tallied(plan), refine=refine)
    top, every = found.single(ASKED), found.single("presence(films)")
    order = np.argsort(-every.value)[:2]
    assert top.labels == tuple(every.item_names[place] for place in order)
    assert top.value.tolist() == every.value[order].tolist()
    assert top.stderr.tolist() == every.stderr[order].tolist()
    low, high = every.interval(0.95, simultaneous=True)
    assert np.array(top.interval(0.95)).tolist() == [low[order].tolist(), high[order].tolist()]
    true = truths(plan, [people()])["presence(films)"][order]
    low, high = top.interval(1 - 2e-9)
    assert ((low <= true) & (true <= high)).all()
    assert top.labels == ("Alien", "Heat")


def test_it_has_no_truth_beforehand():
    assert ASKED not in truths(planned(ASKED), [people()])


def test_single_reports_and_files():
    check_single_reports(planned(ASKED))
    check_stored(planned(ASKED))


def test_nobody_was_asked():
    plan = planned(ASKED, "mean(age)", epsilon=1.0)
    reports = (plan.report({"age": 30, "films": {}}, seed=seed) for seed in range(60))
    tally = next(plan.tally(each) for each in reports if len(each["mean(age)"]))
    found = plan.estimate(tally, refine="auto").single(ASKED)
    assert (np.isnan(found.value).all(), found.value.shape, found.n) == (True, (2,), 0)
    assert np.array(found.interval()).tolist() == [[0.0, 0.0], [1.0, 1.0]]
