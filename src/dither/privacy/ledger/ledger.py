"""A device that is asked again: it repeats itself, or it pays.

Every fresh report of a value costs a plan's whole guarantee once more, and noise that is drawn afresh averages out. So
a device keeps what it has sent (*permanent response*). Which questions it answers is drawn once for each plan. A
question about an unchanged value gets the same report, to the bit. A changed value gets a fresh one, which is charged.

**Rounds.** A round is one report to every question that the device answers, and costs the plan's guarantee (epsilon,
delta). A question's first report is of round 1, its next one of round 2, and so on; round i is charged when the first
of its reports is made. With c changes a question goes through 1 + c rounds at most, then it keeps its last report.

**What is promised.** A history is what a record holds each time that it is asked. The draw and the times of asking are
public. All that the device ever sends about a plan is the rounds, arranged by the times of the changes:

1. *At the same times.* Two histories in which each answer changes at the same times, up to the c-th change, give
   transcripts that are ((1 + c) epsilon, (1 + c) delta)-indistinguishable. Proof: the arrangement is the same for both.
   The reports of round i are a part of the plan's report of one record, made of the i-th values, or of another, and
   rounds are drawn independently. Later changes alter nothing. (Histories must not depend on the noise.)
2. *Without changes* (`changes=0`): any two histories, epsilon. Only the first value is ever looked at.
3. *By periods* (`periods=r`): any two histories, r epsilon. Here a fresh report is made once in each period, whether
   the value has changed or not. The arrangement is public, since the periods are.
4. *By a plan with rounds of its own* (`dither.plan(..., rounds=30)`): what the plan states, for all rounds together.
   `round_answers` has the rules.

**What is not.** Under 1, *that* a value changed is not hidden, nor when. The histories (A, A) and (A, B) are told apart
with certainty as soon as two different reports are seen: (y, z) has probability 0 under the first. No epsilon covers
this, and no memoization by value can. If the times of changes matter, take 2 or 3. (Mechanisms that randomize a kept
response a second time, `mechanisms.longitudinal`, keep it themselves: the ledger repeats a whole report. In a plan with
rounds it keeps what they keep.)

**Going back.** After A, B, A the third report is fresh, and paid for. It would be cheaper to keep a report for each
value, as RAPPOR does: k values would cost k epsilon for ever. But then the transcript shows who went back to what, at
every time, without end: A, B, A and A, B, C are told apart with certainty. So only the last report is kept, at most c
times of change are ever shown, and the file holds nothing about values of the past.

**Whether a device sends** must not depend on its values. So a plan *reserves* its budget, (1 + c) rounds, before its
first answer, and a plan is turned down (`BudgetError`) if the reservations, which are public, leave too little.
Nothing that was reserved is given back: what is left over says how often values changed. Rounds used up, or a report
that cannot be stored: the device repeats its last report, since falling silent would tell that the value has changed.

**What is stored**: of each answer the last report, and a keyed digest of what it was made for. No value. The key
stands in the same file, so whoever has the file can test guesses: keep it as private as the values themselves.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, overload

from dither.core.checks import checked_count, checked_delta, checked_epsilon, checked_real, whole_number
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Mechanism
from dither.core.reports import Reports
from dither.display.table import TextTable
from dither.errors import BudgetError, LedgerError, ParameterError
from dither.privacy.accounting.exact_sums import MOST_ROUNDS, Priced, affordable_rounds, basic_composition, summed
from dither.privacy.ledger import store
from dither.privacy.ledger.prompt import Outline, PlanLike, Prompt, canonical, outlined, prompted
from dither.privacy.ledger.round_answers import ROUNDS, RoundAnswer, answered, sent
from dither.privacy.ledger.store import Answer, Book, Reserved

CHANGES, PERIODS = "changes", "periods"
_NOT_YET = Answer(0, b"", b"")
_NAME = 32  # letters


class Ledger:
    """What a device has spent, in a file that survives crashes; it answers plans with the reports that it keeps.

    >>> import tempfile
    >>> from dither import GRR
    >>> mechanism = GRR(k=4, epsilon=1.0)
    >>> with tempfile.TemporaryDirectory() as place, Ledger(f"{place}/ledger.db", epsilon=2.0) as ledger:
    ...     same = ledger.report(mechanism, 3) == ledger.report(mechanism, 3)
    ...     print(same, ledger.spent)
    [ True] epsilon 1 (bound)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        timeout: float = 30.0,
    ) -> None:
        """Open a ledger, or make one with a budget. A budget that was promised is not changed."""
        self._path = store.checked_path(path)
        self._timeout = checked_real("timeout", timeout)
        self._closed = False
        if not 0 <= self._timeout < 1e6:
            raise ParameterError("timeout is in seconds, for example timeout=30")
        wanted = None if epsilon is None else checked_epsilon(epsilon), None if delta is None else checked_delta(delta)
        if not os.path.lexists(self._path):
            if wanted[0] is None:
                raise ParameterError("a new ledger needs a budget for all plans together, for example epsilon=4.0")
            store.create(self._path, wanted[0], wanted[1] or 0.0)
        found = self.budget
        if wanted[0] not in (None, found.epsilon) or wanted[1] not in (None, found.delta):
            raise ParameterError(
                f"this ledger was made with {found}, and what was promised is not changed; leave epsilon and delta out"
            )

    # On the device ---------------------------------------------------------------------------------------------

    @overload
    def report(self, plan: Mechanism, record: Any, *, period: str | int | None = None) -> Reports: ...
    @overload
    def report(self, plan: PlanLike, record: Any, *, period: str | int | None = None) -> dict[str, Reports]: ...
    def report(
        self, plan: PlanLike | Mechanism, record: Any, *, period: str | int | None = None
    ) -> dict[str, Reports] | Reports:
        """What the device sends: as `plan.report(record)`, but kept, repeated and charged.

        `period` is a public label, such as the week: a fresh report is made in each, whether the value has changed or
        not. A plan that was not reserved for takes all that is left of the budget. For a mechanism `record` is the
        value of one user, and the result its report. A plan with rounds of its own needs the period, one of those that
        it names: `privacy.ledger.round_answers` tells what is sent in each, and all of it costs the plan's guarantee
        once.
        """
        outline, question = outlined(plan), prompted(plan, record)
        if outline.schedule.repeats:
            kept = self._kept_in_round(outline, question, period)
        else:
            kept = self._kept(outline, question, period_label(period))
        reports = question.reports(kept)
        return reports.get("", reports)  # a mechanism alone has no questions to name its report by

    def _kept(self, outline: Outline, question: Prompt, label: bytes | None) -> dict[str, bytes]:
        """For each drawn part the report to send. Whatever it is, it is on the disk."""
        plan, failure = outline.fingerprint, ""
        with self._book() as book:
            reserved = _reservation(book, outline, CHANGES if label is None else PERIODS, None)
            before = book.answers.get(plan, {})
            after = dict(before or dict.fromkeys(question.drawn, _NOT_YET))
            for part, answer in after.items():
                subject = canonical(question.values[part]) if label is None else label
                made_for = store.keyed(book.key, plan, part, subject)
                if answer.made_for != made_for and answer.round < reserved.rounds:
                    after[part] = Answer(answer.round + 1, made_for, question.fresh(part))
            try:
                book.write(plan, reserved, after)
            except store.STORING as error:
                failure = store.reason_of(error, self._path, self._timeout)
        if failure and not before:
            raise LedgerError(failure)
        return {part: answer.report for part, answer in (before if failure else after).items()}

    def _kept_in_round(self, outline: Outline, question: Prompt, period: Any) -> dict[str, bytes]:
        """For each part that is answered in this round of a plan the report to send. It is on the disk."""
        if period is None:
            raise ParameterError(
                f"this plan has rounds: say which it is, ledger.report(plan, record, period=...); "
                f"{outline.schedule.periods_in_words()}"
            )
        plan, schedule, failure = outline.fingerprint, outline.schedule, ""
        number = schedule.number_of(period)
        with self._book() as book:
            reserved = _reservation(book, outline, ROUNDS, 1)
            before = {part: RoundAnswer.read(answer) for part, answer in book.answers.get(plan, {}).items()}
            key = book.key

            def digest(part: str, subject: bytes) -> bytes:
                return store.keyed(key, plan, part, subject)

            after = answered(schedule, before, question, number, digest)
            try:
                book.write(plan, reserved, {part: answer.stored() for part, answer in after.items()})
            except store.STORING as error:
                failure = store.reason_of(error, self._path, self._timeout)
        if failure and not before:
            raise LedgerError(failure)
        return sent(schedule, before if failure else after, number)

    def keeps(self, plan: PlanLike | Mechanism, period: str | int) -> bool:
        """Whether what is kept for a plan, its last reports, was made for this period: then they would be repeated."""
        outline = outlined(plan)
        if outline.schedule.repeats:
            number = outline.schedule.number_of(period)
            with self._book() as book:
                there = [RoundAnswer.read(answer) for answer in book.answers.get(outline.fingerprint, {}).values()]
            return any(answer.number == number and answer.report for answer in there)
        with self._book() as book:
            return _keeps(book, outlined(plan).fingerprint, period)

    def has_answered(self, plan: PlanLike | Mechanism, *, period: str | int | None = None) -> bool:
        """Whether there is a report to a plan already, in this period of one with rounds, which would be repeated."""
        if period is not None:
            return self.keeps(plan, period)
        with self._book() as book:
            return bool(book.answers.get(outlined(plan).fingerprint))

    def name_of_round(self, plan: PlanLike | Mechanism, number: int) -> str:
        """A name for what this device sends in a round of a plan: the same whenever it is asked for.

        It looks random to whoever has not this ledger, and nobody can tell that two of them are of one device.
        """
        with self._book() as book:
            return store.keyed(book.key, outlined(plan).fingerprint, "name of a round", b"%d" % number).hex()[:_NAME]

    def has_round(self, plan: PlanLike | Mechanism, period: str | int) -> bool:
        """Whether a plan that was reserved by periods has a report for this one, or a round left to make it.

        It depends on which periods were asked for, on no value: where a report of another period is of no use, a
        device may refuse by it.
        """
        if outlined(plan).schedule.repeats:
            raise ParameterError(
                "the rounds of this plan are its own: ledger.report(plan, record, period=...) knows them"
            )
        fingerprint = outlined(plan).fingerprint
        with self._book() as book:
            there = book.reserved.get(fingerprint)
            if there is None or there.kind != PERIODS:
                raise ParameterError("nothing is reserved by periods for this plan: ledger.reserve(plan, periods=10)")
            return _keeps(book, fingerprint, period) or book.paid(fingerprint) < there.rounds

    # The budget ------------------------------------------------------------------------------------------------

    def reserve(
        self, plan: PlanLike | Mechanism, *, changes: int | None = None, periods: int | None = None
    ) -> Guarantee:
        """Set aside, before the first answer, what a plan will need: for so many changes, or so many periods.

        Without a number it is what is reserved already, or else all that is left. To say the same again is fine; a
        reservation is not changed. A plan with rounds of its own has said all of that: what it needs is its guarantee.
        """
        outline, failure = outlined(plan), ""
        kind, rounds = _rounds(outline, changes, periods)
        with self._book() as book:
            reserved = _reservation(book, outline, kind, rounds)
            try:
                book.write(outline.fingerprint, reserved, {})
            except store.STORING as error:
                failure = store.reason_of(error, self._path, self._timeout)
        if failure:
            raise LedgerError(failure)
        return basic_composition(outline.guarantee, reserved.rounds)

    def guarantee(
        self, plan: PlanLike | Mechanism, *, changes: int | None = None, periods: int | None = None
    ) -> Guarantee:
        """What is promised for so many changes, or periods; without a number, for those that are reserved.

        For periods, and for `changes=0`, it holds for any two histories. Otherwise it holds for two histories that
        change at the same times: that a value has changed is not hidden.
        """
        outline = outlined(plan)
        _, rounds = _rounds(outline, changes, periods)
        if rounds is None:
            with self._book() as book:
                there = book.reserved.get(outline.fingerprint)
            if there is None:
                raise ParameterError("nothing is reserved for this plan yet; say for how many changes, or periods")
            rounds = there.rounds
        return basic_composition(outline.guarantee, rounds)

    @property
    def budget(self) -> Guarantee:
        """What is promised for all plans together."""
        with self._book() as book:
            return _budget(book)

    @property
    def reserved(self) -> Guarantee:
        """What is set aside. It is public: it depends on the plans alone."""
        with self._book() as book:
            return summed(_priced(book.reserved.values()))

    @property
    def spent(self) -> Guarantee:
        """What was paid for. It is private, since it tells how often values have changed: do not send it."""
        with self._book() as book:
            return summed((Guarantee(epsilon, delta, "bound"), 1) for _, _, epsilon, delta in book.charges)

    def table(self) -> TextTable:
        """One row a plan. As private as `spent`."""
        with self._book() as book:
            paid = [sum(1 for charged, *_ in book.charges if charged == plan) for plan in book.reserved]
            rows = list(book.reserved.values())
            prices = _priced(rows)
            return TextTable(
                {
                    "plan": [plan[:12] for plan in book.reserved],
                    "answers": [len(book.answers.get(plan, ())) for plan in book.reserved],
                    "reserved for": [_named(row) for row in rows],
                    "rounds": paid,
                    "spent": [summed([(price, used)]).epsilon for (price, _), used in zip(prices, paid, strict=True)],
                    "reserved": [summed([price]).epsilon for price in prices],
                }
            )

    # The file --------------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """Where it is kept."""
        return self._path

    def close(self) -> None:
        """Use it no more. Nothing has to be written: whatever was handed out is on the disk."""
        self._closed = True

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({str(self._path)!r}{', closed' if self._closed else ''})"

    def _book(self):
        if self._closed:
            raise ParameterError("this ledger is closed; open it again with Ledger(path)")
        return store.opened_book(self._path, self._timeout)


def period_label(period: Any) -> bytes | None:
    """A period as bytes; 1 and "1" are two periods."""
    if period is None:
        return None
    number = whole_number(period)
    if number is not None:
        return f"int {number}".encode()
    if not isinstance(period, str):
        raise ParameterError('a period is a public label, a text or a whole number, as in period="2026-W47"')
    return f"str {str.__str__(period)}".encode(errors="surrogatepass")


def _keeps(book: Book, plan: str, period: str | int) -> bool:
    answers, label = book.answers.get(plan, {}), period_label(period) or b""
    return bool(answers) and all(
        answer.made_for == store.keyed(book.key, plan, part, label) for part, answer in answers.items()
    )


def _rounds(outline: Outline, changes: int | None, periods: int | None) -> tuple[str | None, int | None]:
    if outline.schedule.repeats:
        if changes is not None or periods is not None:
            raise ParameterError("this plan says how often it asks; leave changes and periods out")
        return ROUNDS, 1
    if changes is not None and periods is not None:
        raise ParameterError("give changes or periods, not both")
    if periods is not None:
        return PERIODS, checked_count("periods", periods, 1, MOST_ROUNDS)
    if changes is not None:
        return CHANGES, 1 + checked_count("changes", changes, 0, MOST_ROUNDS - 1)
    return None, None


def _reservation(book: Book, outline: Outline, kind: str | None, rounds: int | None) -> Reserved:
    """What is reserved for a plan, or would be: it depends on the plans alone, not on what was spent."""
    guarantee, there = outline.guarantee, book.reserved.get(outline.fingerprint)
    if there is not None:
        if kind not in (None, there.kind) or rounds not in (None, there.rounds):
            raise ParameterError(
                f"for this plan {_named(there)} are reserved, and what was promised is not changed; periods are asked "
                "for with report(..., period=...), changes without"
            )
        return there
    rows = _priced(book.reserved.values())
    budget, taken, most = _budget(book), summed(rows), affordable_rounds(_budget(book), guarantee, rows)
    if not (rounds or 1) <= most:
        less = (
            "Make a plan with a smaller epsilon, which is for all of its rounds"
            if kind == ROUNDS
            else "To share a budget, reserve less for each plan, before it is first answered: "
            "ledger.reserve(plan, changes=1)"
        )
        raise BudgetError(
            f"{basic_composition(guarantee, rounds or 1)} does not fit: the device promises {budget}, and {taken} is "
            f"reserved for {len(rows)} plans. It takes no part in this one. {less}"
        )
    return Reserved(kind or CHANGES, rounds or most, guarantee.epsilon, guarantee.delta)


def _named(reserved: Reserved) -> str:
    if reserved.kind == ROUNDS:
        return "all rounds of the plan"
    if reserved.kind == PERIODS:
        return f"{reserved.rounds:,} periods"
    return f"{reserved.rounds - 1:,} changes"


def _priced(rows: Iterable[Reserved]) -> list[Priced]:
    """Each reservation as a price, and how often it is paid."""
    return [(Guarantee(row.epsilon, row.delta, "bound"), row.rounds) for row in rows]


def _budget(book: Book) -> Guarantee:
    return Guarantee(book.facts["epsilon"], book.facts["delta"], "bound")
