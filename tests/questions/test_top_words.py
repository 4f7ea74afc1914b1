"""The most frequent words: asked, planned, stored, collected, and over time."""

import json

import numpy as np
import pytest

import dither
from dither import Ordinal, Plan, Public, Schema, Text
from dither.errors import ParameterError
from dither.mechanisms.heavy_hitters import HeavyHitters, TopWords
from dither.privacy.ledger import Ledger
from dither.questions import named, questions

LETTERS = "abcdefgh"
SCHEMA = Schema({"word": Text(longest=6, alphabet=LETTERS), "age": Ordinal(0, 9)})
SHARES = {"abba": 0.4, "deaf": 0.3, "bad": 0.15, "cabbage": 0.05, "": 0.1}
USERS = 20_000
ASKED = "top(word, 20)"


def people(users: int = USERS) -> list[str]:
    """Words with these shares, of which one is too long and one is empty."""
    return (
        np.random.default_rng(3)
        .permutation(np.repeat(list(SHARES), [round(share * users) for share in SHARES.values()]))
        .tolist()
    )


@pytest.mark.parametrize("text", [ASKED, "top(word)", "top( word , 20 )", " top (word,20) "])
def test_it_is_read_and_written(text):
    (one,) = questions(SCHEMA, [text])
    assert str(one) == ASKED
    assert named([one], text) is one
    assert not one.means("top(word, 3)")
    assert not one.means("top(age)")


def test_a_stated_share():
    (one,) = questions(SCHEMA, ["top(word, 5, 0.01)"])
    assert str(one) == "top(word, 5, 0.01)"
    assert one.means("top(word,5,.01)")
    assert not one.means("top(word, 5)")


@pytest.mark.parametrize("inside", ["word, 0", "word, 1001", "word, 5, 1.5"])
def test_numbers_that_there_are_not(inside):
    with pytest.raises(ParameterError, match="top asks for"):
        questions(SCHEMA, [f"top({inside})"])


@pytest.mark.parametrize("inside", ["word, x", "word, 5, x", "word, -1", "age"])
def test_what_is_no_such_question(inside):
    with pytest.raises(ParameterError):
        questions(SCHEMA, [f"top({inside})"])


def test_it_is_the_question_of_a_text():
    assert [str(each) for each in questions(SCHEMA, None)] == [ASKED, "distribution(age)"]


def test_keys_and_words_have_the_same_word():
    schema = Schema({"word": SCHEMA["word"], "films": dither.KeyValue(["a", "b"], size=1)})
    assert [str(each) for each in questions(schema, ["top(word, 3)", "top(films, 1)"])] == [
        "top(word, 3)",
        "top(films, 1)",
    ]


def test_a_plan_and_its_list():
    plan = dither.plan(SCHEMA, 3.0, users=USERS)
    assert isinstance(plan.parts[0].mechanism, HeavyHitters)
    again = Plan.from_json(plan.to_json())
    assert again.fingerprint == plan.fingerprint
    assert again.prediction == plan.prediction
    table = {"word": people(), "age": np.arange(USERS) % 10}
    found = again.estimate(plan.tally(plan.randomize(table, seed=1, invalid="substitute")))
    top = found["word"]
    assert isinstance(top, TopWords)
    assert list(top.labels or ())[:3] == ["abba", "deaf", "bad"]
    low, high = top.interval()
    for word, least, most in zip(top.labels or (), low, high, strict=True):
        assert least <= SHARES.get(word, 0.0) <= most
    shares = top.share_of(["bad", " ABBA"])
    assert list(shares.labels or ()) == ["bad", "abba"]
    assert np.abs(shares.value - [0.15, 0.4]).max() < 6 * shares.stderr.max()
    assert "top(word, 20)" in str(found)
    assert found.table()
    assert "Looked at" in top.explain()
    with pytest.raises(ParameterError, match="word 1 of these"):
        top.share_of(["bad", "geheimnisse"])


def test_a_list_without_words():
    plan = dither.plan(SCHEMA, 0.5, users=2000, ask=["top(word, 5)"])
    found = plan.estimate(plan.tally(plan.randomize({"word": ["abba"] + ["abc", "bcd"] * 20}, seed=1)))["word"]
    assert found.value.shape == (0,)
    assert found.explain()
    assert str(found)
    assert "low 95%" in str(found.table())
    assert len(found.to_pandas()) == 0


def test_known_words_come_with_the_schema():
    schema = Schema({"word": Text(longest=6, alphabet=LETTERS, known=["abba", "deaf"])})
    plan = dither.plan(schema, 3.0, users=USERS)
    found = plan.estimate(plan.tally(plan.randomize({"word": people()}, seed=1, invalid="substitute"))).single("word")
    assert list(found.labels or ()) == ["abba", "deaf", "bad"]
    assert "2 known" in found.explain()


def test_what_is_foreseen():
    plan = dither.plan(Schema({"word": Text(8, "abcdefghijklmnopqrstuvwxyz")}), 1.0, users=10**5)
    told = plan.prediction.lists[ASKED]
    assert 0 < told["hopeless"] < told["short"] < told["long"] < 1
    assert "nothing below" in plan.explain()
    law = {"abba": 0.5, "deaf": 0.3, "bad": 0.2}
    known = dither.plan(SCHEMA, 1.0, users=10**5, ask=["top(word, 3)"], prior={"word": law})
    assert known.prediction.lists["top(word, 3)"]["recall"] > 0.99
    assert "100% of the 3 most frequent" in known.explain()
    zipf = dither.plan(SCHEMA, 1.0, users=2000, ask=["top(word, 3)"], prior={"word": "zipf(1.0, 1000)"})
    assert 0 < zipf.prediction.lists["top(word, 3)"]["recall"] < 0.99
    assert Plan.from_json(zipf.to_json()).explain() == zipf.explain()
    sample = dither.plan(SCHEMA, 1.0, users=10**5, ask=["top(word, 3)"], prior={"word": ["abba", "abba", "deaf"]})
    assert sample.prediction.lists["top(word, 3)"]["recall"] > 0.99


@pytest.mark.parametrize("prior", ["normal(1, 2)", "zipf(x)", "zipf(1, 99999999)", {"muchtoolong": 1.0}, 5])
def test_priors_that_are_none(prior):
    with pytest.raises(ParameterError, match="the prior of attribute word"):
        dither.plan(SCHEMA, 1.0, users=1000, ask=[ASKED], prior={"word": prior})


def test_weights_of_words_are_refused():
    with pytest.raises(ParameterError, match="finds its words itself"):
        dither.plan(SCHEMA, 1.0, users=1000, weights={ASKED: {"abba": 2.0}})


def test_groups_are_added_up():
    schema = Schema({"word": SCHEMA["word"], "land": Public(["DE", "FR"])})
    plan = dither.plan(schema, 3.0, users=USERS)
    table = {"word": people(), "land": ["DE", "FR"] * (USERS // 2)}
    found = plan.estimate(plan.tally(plan.randomize(table, seed=1, invalid="substitute")))
    assert list(found.single("word").labels or ()) == ["abba", "deaf", "bad"]


def test_budgets_to_choose_from_are_refused_before_anything_is_collected():
    with pytest.raises(ParameterError, match="finds its items itself"):
        dither.plan(SCHEMA, {"much": 2.0, "little": 1.0}, users={"much": 500, "little": 500}, ask=[ASKED])


def test_phases_ask_alike_and_are_added_up():
    plan = dither.plan(SCHEMA, 3.0, users=USERS, ask=[ASKED], phases=2)
    assert "No question learns anything" in plan.explain()
    words = people()
    first = plan.tally(plan.randomize({"word": words[:5000]}, seed=1, invalid="substitute"))
    second = plan.next(first)
    tally = second.tally(second.randomize({"word": words[5000:]}, seed=2, invalid="substitute"))
    found = second.estimate(tally, earlier=[first]).single("word")
    assert found.n == USERS
    assert list(found.labels or ())[:3] == ["abba", "deaf", "bad"]


def test_shuffled_words():
    plan = dither.plan(SCHEMA, central=0.5, delta=1e-6, users=USERS, ask=[ASKED])
    assert plan.report_guarantee.epsilon > 2
    assert "Shuffled" in plan.explain()


# Over time ------------------------------------------------------------------------------------------------------------


def test_a_device_repeats_its_word(tmp_path):
    plan = dither.plan(SCHEMA, 1.0, users=1000, ask=[ASKED])
    with Ledger(tmp_path / "ledger.db", epsilon=5.0) as ledger:
        sent = [ledger.report(plan, {"word": "abba"}) for _ in range(3)]
        spent = ledger.spent.epsilon
    assert len({str(each) for each in sent}) == 1
    assert spent == plan.guarantee.epsilon
    assert b"abba" not in (tmp_path / "ledger.db").read_bytes()


def test_rounds_from_memory():
    plan = dither.plan(SCHEMA, 3.0, users=5000, ask=[ASKED], rounds=3, changes=0)
    table = {"word": people(5000)}
    rounds = plan.randomize_rounds([table] * 3, seed=1, invalid="substitute")
    found = plan.estimate_rounds({p: plan.tally(each) for p, each in zip(plan.schedule.periods, rounds, strict=True)})
    lists = [each.single("word").labels for each in found.values()]
    assert lists[0] == lists[1] == lists[2]
    assert found.comparable == ()
    assert found.table()
    assert json.dumps(found.to_dict())
    with pytest.raises(ParameterError, match="items of its own"):
        found.changes("word")
    with pytest.raises(ParameterError, match="items of its own"):
        found.mean("word")


def test_rounds_with_other_users():
    plan = dither.plan(SCHEMA, 3.0, users=5000, ask=[ASKED], rounds=2)
    table = {"word": people(5000)}
    rounds = plan.randomize_rounds([table] * 2, seed=1, invalid="substitute")
    found = plan.estimate_rounds({p: plan.tally(each) for p, each in zip(plan.schedule.periods, rounds, strict=True)})
    assert found.interval() is not None
    assert all("abba" in (each.single("word").labels or ()) for each in found.values())


def test_lists_of_any_length_share_one_collection():
    """Two questions about one word do not split the users, and are what each would be alone."""
    schema = Schema({"word": SCHEMA["word"]})
    asked = ["top(word, 2)", "top(word, 8)", "top(word, 8, 0.2)"]
    plan = dither.plan(schema, 4.0, users=20_000, ask=asked)
    (part,) = plan.parts
    assert [str(question) for question in part.questions] == asked
    assert len(set(plan.predicted.values())) == 1
    words = ["abba"] * 10_000 + ["deaf"] * 6_000 + ["bad"] * 3_000 + ["cabbed"] * 1_000
    tally = plan.tally(plan.randomize({"word": words}, seed=1))
    found = plan.estimate(tally)
    assert found["top(word, 2)"].item_names == ("abba", "deaf")
    assert found["top(word, 8)"].item_names == ("abba", "deaf", "bad", "cabbed")
    assert found["top(word, 8, 0.2)"].item_names == ("abba", "deaf")
    assert found.single("top(word, 8, 0.2)").notes[0].startswith("Listed are words that are significantly above 20%")
    for text in asked:
        alone = dither.plan(schema, 4.0, users=20_000, ask=[text])
        (own,), question = alone.parts, alone.parts[0].questions[0]
        assert own.mechanism == part.mechanism
        single = own.mechanism.estimate(tally.parts[part.name], question.reading_of(own.mechanism))
        assert single.value.tolist() == found[text].value.tolist()
        assert np.array_equal(single.interval(0.95), found[text].interval(0.95))
    assert Plan.from_json(plan.to_json()) == plan


def test_names_with_commas():
    schema = Schema({"a, b": Text(longest=3), "a": Text(longest=3)})
    (both, one) = questions(schema, ["top(a, b, 5)", "top(a, 5)"])
    assert (str(both), both.name, one.name) == ("top(a, b, 5)", "a, b", "a")
    assert both.means("top( a, b , 5 )")
    assert not one.means("top(a, b, 5)")
    assert not one.means("top(a, 0)")
