"""Broken on purpose: each mutant changes a plan the way a tired programmer might, and a check must notice.

Most checks are the tests of plans as they are. Three more stand here. `check_joint_channel` runs the production code
of a tiny plan over every tape of short words, and counts: what is seen of a user, who is asked and all reports
together, must keep the stated epsilon, and attain it. `check_who_is_drawn` knows by simulation what it costs that only
some of the users are asked. `check_error_of_the_parts` computes the error of a plan from its parts. All of them pass
on plans as they are.
"""

import itertools
import math
import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import dither
from dither import Categorical, Numeric, Ordinal, Plan, Schema
from dither.core import mechanism
from dither.core.composite_channels import Independent
from dither.core.guarantee import Guarantee
from dither.core.randomness import Stream
from dither.errors import DitherError
from dither.planning import choose, device_plan, plan_estimates, plan_files, plan_parts, priors
from dither.planning import planner as make
from dither.planning.choose import Chooser, report_variance
from dither.planning.plans import Part
from dither.planning.prediction import Prediction
from dither.questions import Question, questions
from planning import test_choose as choosing
from planning import test_plan_files as storage
from planning import test_plans as planning

pytestmark = pytest.mark.filterwarnings("ignore::dither.errors.BudgetWarning")

BITS = 3
TINY = Schema({"a": Categorical(["yes", "no"]), "b": Categorical(["yes", "no"])})
NOTHING = Prediction({}, {}, 0.0, False)


def caught(check: Any, *arguments: Any) -> bool:
    """Whether the check fails as things are now."""
    try:
        check(*arguments)
    except (AssertionError, DitherError, pytest.fail.Exception):
        return True
    return False


# Checks --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Every:
    """All short words on up to four tapes and lanes: row r reads its word off the octal digits of r."""

    label: tuple[str, ...] = ()
    places: dict[Any, int] = field(default_factory=dict)
    bits: int = BITS
    simulated: bool = True  # secure words are the same draws at other addresses: `check_words_are_used_once`

    def spawn(self, *labels: str) -> "Every":
        """Other digits of the same rows."""
        return replace(self, label=(*self.label, *labels))

    def words(self, lane: int, rows: Any, width: int = 1, attempt: int = 0, out: Any = None) -> Any:
        """One digit; laws are chosen such that none is rejected."""
        assert (width, attempt) == (1, 0)
        place = self.places.setdefault((self.label, lane), len(self.places))
        assert place < 4
        numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        return (numbers.astype(np.uint64) >> np.uint64(BITS * place) & np.uint64((1 << BITS) - 1))[:, None]


@dataclass(frozen=True)
class Once:
    """A secure tape that is torn off: no word is read twice."""

    real: Stream
    read: set[Any] = field(default_factory=set)
    lock: Any = field(default_factory=threading.Lock)
    label: tuple[str, ...] = ()
    bits: int = 64
    simulated: bool = False

    def spawn(self, *labels: str) -> "Once":
        """Another tape."""
        return replace(self, real=self.real.spawn(*labels), label=(*self.label, *labels))

    def slots(self, label: str, number: int) -> "Once":
        """Another tape, for parts of rows."""
        return self.spawn("slots", label, str(number))

    def words(self, lane: int, rows: Any, width: int = 1, attempt: int = 0, out: Any = None) -> Any:
        """Words, each at most once."""
        numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else np.asarray(rows)
        places = (numbers[:, None] * width + np.arange(width)).ravel().tolist()
        asked = {(self.label, lane, attempt, place) for place in places}
        assert len(asked) == len(places)
        with self.lock:
            assert not asked & self.read
            self.read.update(asked)
        return self.real.words(lane, rows, width, attempt)


def check_words_are_used_once() -> None:
    """No two users, and no two reports of one user, share randomness, in whatever chunk and thread they are."""
    users = 20_000  # enough for several threads, which have many chunks each
    record = {"a": "yes", "b": "no", "age": 40, "income": 1000.0, "apps": {1: 0.5}}
    table = {name: [value] * users for name, value in record.items()}
    several = Schema({"age": Ordinal(0, 99), "income": Numeric(0, 2000), "apps": dither.KeyValue(20, 2)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_plan, "Stream", type("Tapes", (), {"secure": lambda: Once(Stream.secure())}))
        patch.setattr(device_plan, "_CHUNK", 1000)
        made = [tiny((1, 3), 1), tiny((1, 1), 2), dither.plan(several, 1.0, users=users)]
        made.append(dither.plan(several, 9.0, users=users, ask=["ranges(age, income)", "mean(age)"]))
        for best in made:
            best.randomize({name: table[name] for name in best.attributes})


def tiny(weights: tuple[int, int], reported: int) -> Plan:
    """Two questions with two answers each, the right one with odds of 3 to 1."""
    law = dither.GRR(k=2, epsilon=1.1, weights=(3, 1))
    parts = tuple(Part((each,), law, weight) for each, weight in zip(questions(TINY, None), weights, strict=True))
    return Plan(TINY, 1.1 * reported, 0.0, 10, parts, reported, NOTHING)


def law_of(best: Plan, record: tuple[str, ...]) -> Counter:
    """How many of all tapes show what of this record: which questions are answered, and all answers."""
    users = 1 << 4 * BITS
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_plan, "Stream", type("Tapes", (), {"seeded": lambda *labels: Every()}))
        reports = best.randomize({name: [value] * users for name, value in zip("ab", record, strict=True)}, seed=1)
    answers = [np.asarray(rows)["value"].tolist() for rows in reports.values()]
    if best.questions_per_user == 2:
        return Counter(zip(*answers, strict=True))
    return Counter((place, answer) for place, rows in enumerate(answers) for answer in rows)


def check_joint_channel(weights: tuple[int, int], reported: int) -> None:
    """The largest ratio over all pairs of records and all that is seen is what is stated, and shares are right."""
    best = tiny(weights, reported)
    laws = [law_of(best, record) for record in itertools.product(("yes", "no"), repeat=2)]
    seen = set().union(*laws)
    assert all(law.total() == 1 << 4 * BITS for law in laws)
    worst = max(one[y] / other[y] if other[y] else math.inf for one in laws for other in laws for y in seen if one[y])
    assert math.log(worst) == pytest.approx(best.guarantee.epsilon, abs=1e-12)
    if reported == 1:
        asked = {sum(count for (place, _), count in law.items() if place == 0) * sum(weights) for law in laws}
        assert asked == {weights[0] << 4 * BITS}


def check_who_is_drawn() -> None:
    """At epsilon 12 nearly all of the error comes from who is asked: it is predicted, and it is stated.

    For 400 collections an rmse has a standard error of 3.5%, and a mutant is off by a factor: 25% is 7 of them.
    """
    users, schema = 500, Schema({"a": Categorical(["yes", "no"]), "x": Numeric(0, 10)})
    parts = (
        Part(questions(schema, ["a"]), dither.GRR(k=2, epsilon=12.0), 1),
        Part(questions(schema, ["x"]), dither.Piecewise(epsilon=12.0), 3),
    )
    best = Plan(schema, 12.0, 0.0, users, parts, 1, NOTHING)
    data = {"a": ["yes", "no"] * (users // 2), "x": [0.0, 10.0] * (users // 2)}
    found = [best.estimate(best.tally(best.randomize(data, seed=seed))) for seed in range(400)]
    for part, share, centre in zip(parts, (0.25, 0.75), (0.5, 5.0), strict=True):
        values = np.array([np.ravel(each[part.name].value)[0] for each in found])
        stated = np.mean([np.ravel(each[part.name].stderr)[0] for each in found])
        rmse = np.sqrt(np.mean((values - centre) ** 2))
        variance = choose.report_variance(part.mechanism.reading, part.questions, 0, None, share)
        assert math.sqrt(variance / users / share) * part.questions[0].unit == pytest.approx(rmse, rel=0.25)
        assert stated == pytest.approx(rmse, rel=0.25)


def check_error_of_the_parts() -> None:
    """What a plan says it minimises is the error of its own parts, not of a way that it did not take.

    For the worst users; and, as it chooses, for numbers most of which are spread evenly.
    """
    evenly, often = (
        np.append(np.linspace(-1.0, 1.0, 201), [-1.0, 1.0]),
        np.append(np.full(201, 0.9 / 201), [0.05, 0.05]),
    )
    for epsilon in (1.0, 4.0, 12.0):
        best = dither.plan(planning.SCHEMA, epsilon, users=10_000)
        worst, chosen = [], []
        for part, share in zip(best.parts, best.shares, strict=True):
            for reading in part.table.readings(part.mechanism) if part.table else [part.mechanism.reading]:
                worst.append(reading.worst_variance(share) / share / 10_000)
                chosen.append(worst[-1])
            if part.questions[0].averages:
                assert len(part.questions) == 1
                noise = often @ part.mechanism.moments(evenly).variance + (1 - share) * (often @ evenly**2)
                chosen[-1] = noise / share / 10_000
        assert len(worst) == len(best.questions)
        assert best.prediction.worst == pytest.approx(math.sqrt(np.mean(worst)), rel=1e-9)
        assert best.rmse == pytest.approx(math.sqrt(np.mean(chosen)), rel=1e-9)


joint = pytest.mark.parametrize(("weights", "reported"), [((1, 3), 1), ((1, 1), 2)], ids=["one", "both"])


@joint
def test_the_joint_channel_keeps_what_is_stated(weights, reported):
    check_joint_channel(weights, reported)


@pytest.mark.wide
def test_words_are_used_once():
    check_words_are_used_once()


def test_words_that_are_used_twice(monkeypatch):
    through(monkeypatch, lambda tape, *labels: tape.spawn("question"))
    assert caught(check_words_are_used_once)


def test_chunks_that_share_their_words(monkeypatch):
    real = dither.GRR._fill

    def fill(self, reports, values, tape, rows):
        real(self, reports, values, tape, slice(0, rows.stop - rows.start) if isinstance(rows, slice) else rows)

    monkeypatch.setattr(dither.GRR, "_fill", fill)
    assert caught(check_words_are_used_once)


def test_who_is_drawn_costs_what_is_predicted():
    check_who_is_drawn()


def test_the_error_is_that_of_the_parts():
    check_error_of_the_parts()


# Privacy -------------------------------------------------------------------------------------------------------------


def through(monkeypatch, spawn) -> None:
    """Let the questions of a plan draw from another tape than their own."""
    real = Plan._reports

    class Shared:
        def __init__(self, tape: Any) -> None:
            self.tape, self.simulated = tape, tape.simulated

        def spawn(self, *labels: str) -> Any:
            return spawn(self.tape, *labels)

    def reports(self, part, values, rows, tape, first):
        return real(self, part, values, rows, Shared(tape), first)  # type: ignore[arg-type]

    monkeypatch.setattr(Plan, "_reports", reports)


def test_two_questions_with_one_tape(monkeypatch):
    through(monkeypatch, lambda tape, *labels: tape.spawn("question"))
    assert caught(check_joint_channel, (1, 1), 2)


def test_answers_from_the_tape_that_says_who_is_asked(monkeypatch):
    through(monkeypatch, lambda tape, *labels: tape)
    assert caught(check_joint_channel, (1, 3), 1)


def test_who_is_asked_depends_on_the_data(monkeypatch):
    # Everybody who said yes is asked about it as often as before, everybody else is asked about the other thing.
    real, seen = Plan._asked, {}

    def columns_of(table, attributes):
        columns, users = plans_columns(table, attributes)
        seen.update(first=np.asarray(columns[next(iter(attributes))]))
        return columns, users

    def asked(self, tape, users, start=0):
        first, second = real(self, tape, users, start)
        no = seen["first"][first] != "yes"
        return [first[~no], np.sort(np.concatenate([second, first[no]]))]

    plans_columns = device_plan.columns_of
    monkeypatch.setattr(device_plan, "columns_of", columns_of)
    monkeypatch.setattr(Plan, "_asked", asked)
    assert caught(check_joint_channel, (1, 3), 1)


def test_a_guarantee_that_counts_one_report_of_two(monkeypatch):
    monkeypatch.setattr(device_plan, "Independent", lambda factors, asked, *more: Independent(factors, 1, *more))
    assert caught(check_joint_channel, (1, 1), 2)
    assert caught(planning.test_the_promise_of_all_reports_together, 8.0)


def test_budgets_that_are_not_split(monkeypatch):
    # Such ways are not taken, since they do not keep the guarantee; then something better is missed.
    monkeypatch.setattr(Chooser, "_part", lambda self, m: (self.epsilon, self.delta))
    planning.test_the_promise_of_all_reports_together(8.0)
    assert caught(planning.test_no_fixed_way_is_better, planning.NUMBERS, 12.0)


def test_budgets_that_are_not_split_and_not_checked(monkeypatch):
    monkeypatch.setattr(Chooser, "_part", lambda self, m: (self.epsilon, self.delta))
    monkeypatch.setattr(Plan, "kept", True)
    assert caught(planning.test_the_promise_of_all_reports_together, 8.0)


def test_reports_without_a_tag_of_their_own(monkeypatch):
    monkeypatch.setattr(Plan, "tag", lambda self, part: part.mechanism.fingerprint)
    assert caught(planning.test_reports_are_those_of_one_question_of_one_plan)


def test_a_device_that_is_silent_about_odd_values(monkeypatch):
    monkeypatch.setattr(plan_parts, "_substituted", lambda column, value: column.encode([value])[0])
    assert caught(planning.check_every_record_is_one_user)


def test_a_record_that_counts_as_many(monkeypatch):
    real = plan_parts.DevicePart.encode
    monkeypatch.setattr(plan_parts.DevicePart, "encode", lambda self, record: np.repeat(real(self, record), 2, axis=0))
    assert caught(planning.check_every_record_is_one_user)


def test_budgets_by_variance_that_add_up_to_more(monkeypatch):
    real = Chooser._budgets_by_variance

    def split(self, units):
        return [(1.01 * epsilon, delta) for epsilon, delta in real(self, units) or []] or None

    monkeypatch.setattr(Chooser, "_budgets_by_variance", split)
    assert caught(choosing.test_budgets_by_variance)


def test_a_hash_that_is_not_compared(monkeypatch):
    monkeypatch.setattr(plan_files, "digest", lambda stored: storage.FIRST_HASH)
    assert caught(storage.test_stored_plans)


def test_a_certificate_that_is_taken_from_the_file(monkeypatch):
    monkeypatch.setattr(Plan, "guarantee", property(lambda self: Guarantee(self.epsilon, self.delta)))
    monkeypatch.setattr(Plan, "_certified", lambda self, stated: True)
    assert caught(storage.test_a_forged_plan_with_a_right_hash_is_refused)


def test_a_stated_certificate_that_is_believed(monkeypatch):
    monkeypatch.setattr(Plan, "_certified", lambda self, stated: True)
    assert caught(storage.test_the_certificate_is_stored_and_compared)


def test_mechanisms_that_need_not_fit_their_questions(monkeypatch):
    monkeypatch.setattr(Part, "fits", True)
    assert caught(storage.test_a_forged_plan_with_a_right_hash_is_refused)


def test_integers_that_readers_round(monkeypatch):
    monkeypatch.setattr(mechanism, "portable", lambda stored: stored)
    assert caught(storage.test_integers_survive_readers_that_round)


def test_a_simulation_that_states_a_guarantee(monkeypatch):
    monkeypatch.setattr(plan_estimates, "NO_GUARANTEE", Guarantee(1.0))
    assert caught(planning.test_secure_reports_carry_the_guarantee)


def test_a_substitute_that_is_not_applied(monkeypatch):
    real = Question.encode
    monkeypatch.setattr(Question, "encode", lambda self, column, invalid="error": real(self, column))
    assert caught(planning.test_bad_tables_name_the_attribute_and_no_value)


def test_a_substitute_in_trials(monkeypatch):
    real = Question.encode
    monkeypatch.setattr(Question, "encode", lambda self, column, invalid="error": real(self, column, "substitute"))
    assert caught(planning.test_bad_tables_name_the_attribute_and_no_value)


def test_an_error_that_quotes_the_value(monkeypatch):
    real = Question.encode

    def encode(self, column, invalid="error"):
        try:
            return real(self, column, invalid)
        except dither.errors.DomainError as error:
            reason = str(error)
        raise dither.errors.DomainError(f"{reason}: {list(column)}")

    monkeypatch.setattr(Question, "encode", encode)
    assert caught(planning.test_bad_tables_name_the_attribute_and_no_value)


# Who is asked --------------------------------------------------------------------------------------------------------


def test_one_draw_for_all_rows(monkeypatch):
    real = device_plan.entries
    monkeypatch.setattr(
        device_plan, "entries", lambda sums, tape, rows: np.full_like(drawn := real(sums, tape, rows), drawn[0])
    )
    assert caught(planning.test_shares_follow_the_weights)
    assert caught(check_joint_channel, (1, 3), 1)


def test_weights_that_nobody_follows(monkeypatch):
    monkeypatch.setattr(device_plan, "accumulate", lambda weights: range(1, 1 + len(list(weights))))
    assert caught(planning.test_shares_follow_the_weights)
    assert caught(check_joint_channel, (1, 3), 1)


def test_noise_that_all_rows_share(monkeypatch):
    real = dither.Duchi._fill
    monkeypatch.setattr(
        dither.Duchi, "_fill", lambda self, out, values, tape, rows: real(self, out, values, tape, 0 * rows)
    )
    assert caught(planning.test_realised_errors_agree_with_the_prediction)


# What comes out ------------------------------------------------------------------------------------------------------


def test_a_pair_whose_columns_are_swapped(monkeypatch):
    real = Part.estimates

    def estimated(part, tally, guarantee, users, others=None, earlier=()):
        found = list(real(part, tally, guarantee, users, others))
        yield from zip(part.questions, [estimate for _, estimate in reversed(found)], strict=True)

    monkeypatch.setattr(Part, "estimates", estimated)
    assert caught(choosing.test_pairs_are_asked_together_where_that_is_best)


def test_a_pair_that_asks_for_one_thing_twice(monkeypatch):
    class Numbers:
        stack = staticmethod(lambda columns, axis: np.stack([columns[0]] * len(columns), axis=axis))

        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

    monkeypatch.setattr(plan_parts, "np", Numbers())
    assert caught(choosing.test_pairs_are_asked_together_where_that_is_best)


@pytest.mark.wide
def test_the_whole_width_for_half_of_it(monkeypatch):
    monkeypatch.setattr(Question, "unit", property(lambda self: 1.0 if self.shape else 2 * self.attribute.half_width))
    assert caught(planning.test_estimates_are_in_units_and_cover, 12.0)


@pytest.mark.wide
def test_a_mean_without_its_centre(monkeypatch):
    real = Question.decode

    def decode(self, estimate):
        found = real(self, estimate)
        return found if self.shape else replace(found, value=found.value - self.attribute.centre)

    monkeypatch.setattr(Question, "decode", decode)
    assert caught(planning.test_estimates_are_in_units_and_cover, 12.0)


def test_the_variance_of_who_is_asked_is_not_predicted(monkeypatch):
    everybody: Any = lambda *priced: report_variance(*priced[:4], 1.0)  # type: ignore[call-arg]  # noqa: E731
    monkeypatch.setattr(choose, "report_variance", everybody)
    assert caught(check_who_is_drawn)


def test_the_variance_of_who_is_asked_is_not_stated(monkeypatch):
    real = Part.estimates

    def asked(part: Any, tally: Any, guarantee: Any, users: Any, others: Any = None, earlier: Any = ()) -> Any:
        return real(part, tally, guarantee, tally.n)

    monkeypatch.setattr(Part, "estimates", asked)
    assert caught(check_who_is_drawn)


def test_a_prior_that_is_ignored(monkeypatch):
    monkeypatch.setattr(make, "known_users", lambda schema, asked, prior: {})
    assert caught(choosing.test_priors_make_predictions_kinder_and_change_no_promise, {"income": "uniform"})


def test_a_prior_of_half_the_spread(monkeypatch):
    real = priors._users_like

    def users_like(question, prior):
        users = real(question, prior)
        return users if question.shape else replace(users, values=users.values / 2)

    monkeypatch.setattr(priors, "_users_like", users_like)
    assert caught(choosing.test_a_prior_in_units_is_the_population_that_it_names)


def test_weights_that_do_not_matter(monkeypatch):
    monkeypatch.setattr(make, "importances", lambda asked, weights: dict.fromkeys(asked, 1.0))
    assert caught(choosing.test_weights_move_users_to_what_matters)


@pytest.mark.wide
def test_a_limit_that_is_too_high(monkeypatch):
    real = make.least_mse
    monkeypatch.setattr(make, "least_mse", lambda parameters, epsilon: 2 * real(parameters, epsilon))
    assert caught(choosing.test_twelve_attributes_no_fixed_way_is_better, 1.0)


def test_the_worst_way(monkeypatch):
    real = Chooser.ways
    monkeypatch.setattr(Chooser, "ways", lambda self: real(self)[::-1])
    assert caught(check_error_of_the_parts)
