"""The statement for the people asked: every number is that of the certificate, and every sentence fits its plan."""

import json
import re
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import pytest

import dither
from dither import Categorical, KeyValue, Numeric, Ordinal, Plan, Schema
from dither.core.exact import exp_below
from dither.errors import ParameterError
from dither.planning.plans import Part
from dither.planning.prediction import NOTHING
from dither.planning.statement import FACTS, Statement, statement_of
from dither.privacy.promise import promise_in_words
from dither.questions.catalogue import questions

SCHEMA = Schema(
    {
        "age": Ordinal(0, 99),
        "income": Numeric(0, 200_000),
        "job": Categorical(["nurse", "driver", "other"], missing="other"),
        "films": KeyValue(keys=64, size=4),
    }
)


@lru_cache
def made(epsilon: float = 1.0, users: int = 1_000_000, ask: tuple[str, ...] | None = None) -> Plan:
    return dither.plan(SCHEMA, epsilon, users=users, ask=ask)


def said(statement: Statement, heading: str) -> str:
    (found,) = [section for section in statement.sections if section.heading == heading]
    return "\n".join((*found.paragraphs, *found.items, *found.closing))


REVEALED, SENT, TRUST = "What it reveals at most", "What is sent", "Whom it depends on"


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.5, 8.0])
def test_the_guess_is_that_of_the_certificate(epsilon):
    plan = made(epsilon, ask=("mean(income)",))
    found = plan.statement()
    (told,) = set(re.findall(r"right at most ([0-9.]+)%", found.text(10_000)))
    ratio = Fraction(plan.channel().ratio())  # exact: the guess is right with ratio / (1 + ratio)
    right = 100 * ratio / (1 + ratio)
    assert 0 <= Fraction(Decimal(told)) - right < Fraction(1, 10)  # rounded up to three digits
    assert Fraction(Decimal(told)) >= right
    assert exp_below(epsilon) >= ratio * Fraction(999_999, 1_000_000)
    assert found.guarantee == plan.guarantee
    assert promise_in_words(plan.guarantee)[1] in said(found, REVEALED)
    assert plan.fingerprint in said(found, "What must hold for this to be true")


def test_which_questions_are_drawn():
    one = said(made().statement(), SENT)
    assert "Of 4 questions, or groups of questions, your device draws one by chance" in one
    assert "without looking at your answers" in one
    assert "could also have sent had your answers been any others" in one
    every = made(40.0)
    assert every.questions_per_user == len(every.parts)
    assert f"Your device sends {len(every.parts)} reports" in said(every.statement(), SENT)
    assert "This promise is weak" in said(every.statement(), REVEALED)
    assert "all that your device reports with this plan together" in said(every.statement(), REVEALED)
    single = made(ask=("mean(income)",)).statement()
    assert "Your device sends one report." in said(single, SENT)
    assert "This promise is weak" not in said(single, REVEALED)
    assert "answers at once" not in said(single, REVEALED)


def test_some_questions_of_many():
    schema = Schema({f"x{i}": Numeric(-1, 1) for i in range(6)})
    at_the_ends = {name: [-1.0, 1.0] for name in schema}  # pairs are asked together
    made = dither.plan(schema, 3.0, users=1_000_000, prior=at_the_ends)
    plan = replace(made, questions_per_user=2, epsilon=6.0)
    assert len(plan.parts) == 3
    assert plan.guarantee.epsilon > 5.9  # of two reports together
    told = said(plan.statement(), SENT)
    assert f"your device draws {plan.questions_per_user} by chance, without looking" in told
    assert "reports about those only" in told


def test_what_is_asked_and_computed():
    found = made().statement()
    asked, computed = said(found, "What is asked"), said(found, "What can be computed from it")
    assert "age: a whole number from 0 to 99." in asked
    assert "income: a number from 0 to 200,000." in asked
    assert "job: one of 3 labels: nurse, driver, other." in asked
    assert (
        "films: which of 64 things (keys) you have, up to 4 of them, and for each a number from \u22121 to 1." in asked
    )
    assert "age 49; income 100000; job 'other'; films no keys" in asked
    assert "the mean of income." in computed
    assert "the share of people with each label of job." in computed
    assert "for each thing of films, the share of people who have it." in computed
    assert "Of films it covers all of them at once" in said(found, REVEALED)
    ranges = made(ask=("ranges(age, income, job)",)).statement()
    assert "within any ranges of age, income and job together." in said(ranges, "What can be computed from it")
    assert "films" not in ranges.text()
    assert "This is about all your answers at once" in said(ranges, REVEALED)


def test_every_question_and_every_attribute_has_words():
    many = Categorical([f"label {i}" for i in range(20)])
    assert many.in_words == f"one of 20 labels: {', '.join(f'label {i}' for i in range(12))} and 8 more"
    for question in questions(SCHEMA, None):
        for each in (question, *question.beside):
            assert each.sought.startswith(("the ", "for each "))
            assert each.name in each.sought


def test_with_delta():
    plan = dither.plan(Schema({"x": Numeric(-1, 1)}), 1.0, users=10_000, delta=1e-5)
    asked = plan.parts[0].questions
    gaussian = Plan(
        plan.schema, 1.0, 1e-5, 10_000, (Part(asked, dither.Gaussian(epsilon=1.0, delta=1e-5), 1),), 1, NOTHING
    )
    assert gaussian.guarantee.delta > 0
    found = gaussian.statement(shuffler="Mixer")
    assert "had your answers been any others" not in said(found, SENT)
    odds = int(re.search(r"\(one in ([0-9,]+)\)", said(found, SENT))[1].replace(",", ""))  # type: ignore[index]
    assert Fraction(1, odds) >= Fraction(gaussian.guarantee.delta)
    assert "beyond that by at most delta" in said(found, REVEALED)
    assert "is not stated here" in said(found, TRUST)
    assert "delta" in said(found, "What must hold for this to be true")


def test_a_device_that_remembers():
    schema = Schema({"job": Categorical(["a", "b", "c"])})
    mechanism = dither.LGRR(k=3, epsilon=2.0, first=1.0)
    plan = Plan(schema, 2.0, 0.0, 1000, (Part(tuple(questions(schema, None)), mechanism, 1),), 1, NOTHING)
    found = plan.statement(shuffler="Mixer")
    told = said(found, SENT)
    assert "keeps it, and makes every report from it" in told
    assert f"{mechanism.guarantee}, for all of them together" in told
    assert f"a single one: {mechanism.report_guarantee}" in told
    assert mechanism.guarantee != mechanism.report_guarantee
    assert plan.guarantee == mechanism.guarantee  # what is promised is for all rounds
    assert "first responses" in said(found, "What is kept, and for how long")
    assert "keeps its first responses" in said(found, "What must hold for this to be true")
    assert "is not stated here" in said(found, TRUST)  # a shuffled round is not all rounds
    assert "may recognise that they come from one device" in told
    assert "no number of a person or a device" not in told  # a hash function of one's own comes back in every round
    assert "no number of a person or a device" in said(made().statement(), SENT)


def test_whom_it_depends_on():
    plan = made()
    alone, mixed = (said(plan.statement(shuffler=name), TRUST) for name in (None, "Mixer Ltd"))
    assert "nobody who must not collude" in alone
    assert "shuffler" not in alone
    assert "Reports pass through a shuffler, Mixer Ltd," in mixed
    assert "If they collude, the promise above still holds." in mixed
    crowd = dither.privacy.amplify(plan, 1_000_000, 1e-6)
    assert f"{crowd}." in mixed
    assert "If 1,000,000 people report" in mixed
    few = said(replace(plan, users=2).statement(shuffler="Mixer"), TRUST)
    assert "no number is known" in few


# What is filled in ---------------------------------------------------------------------------------------------------


def test_blanks_are_marked_and_listed():
    empty = made().statement()
    assert dict(empty.blanks) == FACTS
    assert all(f"[to be filled in: {what}]" in empty.text(10_000) for what in FACTS.values())
    assert empty.html().count("<mark>") == empty.text(10_000).count("[to be filled in")
    full = made().statement(**{name: f"fact {name}" for name in FACTS})
    assert not full.blanks
    assert "to be filled in" not in full.text() + full.markdown() + full.html()
    assert all(f"fact {name}" in full.text() for name in FACTS)
    assert dict(made().statement(collector="  ").blanks) == FACTS


@pytest.mark.parametrize(
    ("given", "told"), [("30d", "30 days"), ("1 d", "1 day"), ("4w", "4 weeks"), ("6m", "6 months"), ("1y", "1 year"),
                        ("until the law changes", "until the law changes")],
)  # fmt: skip
def test_times(given, told):
    assert f"Reports: {told}." in made().statement(keep_reports=given).text()


# How it is written ---------------------------------------------------------------------------------------------------


def test_names_bring_no_marks_of_their_own():
    schema = Schema({"<script>alert`1`</script>": Categorical(["*a*", "[b](http://x)", "# c", "<img src=x>", "1. d"])})
    found = dither.plan(schema, 1.0, users=1_000_000).statement(collector="_we_ <b>")
    page, notice = found.html(), found.markdown()
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page
    markdown = pytest.importorskip("markdown").markdown(notice)
    for tag in ("<script", "<img", "<a ", "<em>", "<b>", "<ol>"):
        assert tag not in markdown
    assert markdown.count("<h1>") == 1
    assert markdown.count("<h2>") == len(found.sections)
    assert "&lt;script&gt;alert`1`&lt;/script&gt;" in markdown


def test_files(tmp_path):
    found = made().statement()
    for kind, text in ((".md", found.markdown()), (".txt", found.text() + "\n"), (".html", found.html())):
        found.save(tmp_path / f"statement{kind}")
        assert (tmp_path / f"statement{kind}").read_text(encoding="utf-8") == text
    with pytest.raises(ParameterError, match=r"\.md, \.txt, \.html"):
        found.save(tmp_path / "statement.doc")
    assert max(map(len, found.text().splitlines())) <= 80
    assert json.loads(json.dumps(found.to_dict()))["plan"] == found.plan
    assert str(found) == found.text()


def test_a_stored_plan_has_the_same_statement():
    plan = made()
    assert Plan.from_json(plan.to_json()).statement() == plan.statement() == statement_of(plan)


def test_a_mutant_that_promises_too_much_is_found(monkeypatch):
    from dither.privacy import promise

    real = promise.best_guess
    monkeypatch.setattr(promise, "best_guess", lambda guarantee: f"{float(real(guarantee)[:-1]) - 0.1:.1f}%")
    with pytest.raises(AssertionError):
        test_the_guess_is_that_of_the_certificate(1.0)


def test_names_and_labels_are_shown_and_not_obeyed():
    """A letter that turns the direction of a line, or starts a command of a terminal, changes no sentence beside it."""
    labels = ["left\u202etfel", "red\x1b[31m", "\u2067in\u2069", "two\nlines"]
    schema = Schema({"a\u202eb": Categorical(labels), "- + c": Numeric(0, 1)})
    found = dither.plan(schema, 1.0, users=10_000).statement(collector="The\u202d town")
    for told in (found.text(), found.markdown(), found.html(), json.dumps(found.to_dict(), ensure_ascii=False)):
        assert not re.search("[\x00-\x09\x0b-\x1f\u202a-\u202e\u2066-\u2069]", told)
        assert "left\ufffdtfel" in told
    assert "\n- \\- + c: " in found.markdown()  # no list in the list


def test_a_promise_with_a_large_delta_is_called_weak():
    strong = made(1.0, ask=("mean(income)",))
    for delta, weak in ((0.0, False), (0.5, False), (0.99, True)):
        mechanism = dither.Duchi(0.1, delta=delta) if delta else dither.Duchi(0.1)
        parts = (Part(strong.parts[0].questions, mechanism, 1),)
        plan = Plan(strong.schema, 0.1, delta, 1000, parts, 1, NOTHING)
        assert ("This promise is weak" in said(plan.statement(), REVEALED)) == weak
