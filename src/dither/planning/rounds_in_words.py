"""Rounds in words: what a plan says about them, to analysts, to participants, and to whoever forgets the ledger."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dither.core.schedule import FRESH, ONE, Schedule
from dither.errors import ParameterError

if TYPE_CHECKING:
    from dither.planning.plans import Plan

_ANY = "for any two histories of values"
_SAME_TIMES = (
    "for two histories whose values change at the same times; that a value has changed, and when, is not hidden"
)


def refuse_forgetful(schedule: Schedule) -> None:
    """Refuse to report without memory where there are rounds: a device that forgets would spend again."""
    if schedule.repeats:
        raise ParameterError(
            f"this plan has {schedule.rounds:,} rounds, and a device that does not remember what it sent would spend "
            "again in each: keep a ledger, Ledger(path, epsilon=...).report(plan, record, period=...); in trials, "
            "plan.randomize_rounds([table] * plan.rounds)"
        )


def rounds_columns(plan: "Plan", questions: Sequence[str]) -> dict[str, list[float]]:
    """The predicted errors of the mean over all rounds, and of a change from one to the next."""
    known = {"of the mean": plan.prediction.mean_of_rounds, "of a change": plan.prediction.change}
    return {head: [errors[name] for name in questions] for head, errors in known.items() if errors}


def rounds_explained(plan: "Plan") -> Iterator[str]:
    """What happens in the rounds, and what that promises."""
    schedule = plan.schedule
    if not schedule.repeats:
        return
    yield f"In {schedule.rounds:,} rounds: {_device(plan)}."
    promised = _ANY if schedule.moments_hidden else _SAME_TIMES
    yield f"One round promises {plan.report_guarantee}; all rounds together {plan.guarantee}, {promised}."
    yield from _second_draw(plan)
    yield "Devices keep a ledger: ledger.report(plan, record, period=...)."


def _device(plan: "Plan") -> str:
    schedule = plan.schedule
    if schedule.mode == ONE:
        return (
            "every user draws one of them, without looking at the record, and reports in that one alone, which is "
            f"{plan.heard:,.0f} users a round"
        )
    if schedule.mode == FRESH:
        part = f" and 1/{schedule.rounds:,} of epsilon" if plan.crowd is None else ""
        return f"every user reports in each, with fresh noise{part}"
    if not schedule.changes:
        return "every user reports in each, from one kept response to the first value that was asked for"
    return (
        "every user reports in each, from a kept response, which is drawn anew when the value has changed, at most "
        f"{schedule.changes:,} time{'s' * (schedule.changes != 1)}; who changes more often stays with an old value"
    )


def _second_draw(plan: "Plan") -> Iterator[str]:
    """What it costs that a kept response is randomized again."""
    from dither.planning.rounds import response_readings  # a device has no use for it

    for part in plan.parts:
        readings = [response_readings(part, question, place) for place, question in enumerate(part.questions)]
        known = [each for each in readings if each is not None]
        if known:
            ratio = max(math.sqrt(each.kept.worst_variance() / each.sent.worst_variance()) for each in known)
            mechanism: Any = part.mechanism
            yield (
                f"A kept response about {part.name} has epsilon {mechanism.epsilon:.6g}, and is randomized again in "
                f"every round, so that a single report tells {mechanism.first:.6g}; sent as it is "
                f"(first={plan.epsilon:g}), the error of a round would be {1 - ratio:.0%} smaller, and a device would "
                "send the same in all rounds, by which it is known again, as is the round in which its value changes."
            )


# For participants -----------------------------------------------------------------------------------------------------


def rounds_stated(plan: "Plan") -> Iterator[str]:
    """For the people who are asked: how often their device reports, and what that tells together."""
    schedule = plan.schedule
    if not schedule.repeats:
        return
    rounds = f"There are {schedule.rounds:,} rounds."
    if schedule.mode == ONE:
        yield (
            f"{rounds} Your device draws one of them by chance, without looking at your answers, and reports in that "
            "one only. Which was drawn is no secret: that it reports then, and not in another round, shows it."
        )
    elif schedule.mode == FRESH:
        yield f"{rounds} Your device reports in each of them, with new chance each time."
    else:
        yield (
            f"{rounds} Your device reports in each of them. It draws a response to your answers by chance, keeps it, "
            "and makes every report from it. "
            + (
                f"When your answers have changed it draws a new one, up to {schedule.changes:,} "
                f"time{'s' * (schedule.changes != 1)}; after that it goes on with the last."
                if schedule.changes
                else "It looks at your answers once, for the first report."
            )
            + " Reports that are made from one response are alike, or the same: whoever collects them may recognise "
            "that they come from one device; they do not say whose it is."
        )
    yield f"The reports of one round reveal at most: {plan.report_guarantee}. Those of all rounds: {plan.guarantee}."


def same_times_stated(plan: "Plan") -> Iterator[str]:
    """What a promise between histories that change at the same times does not cover."""
    if not plan.schedule.moments_hidden:
        yield (
            "This is about what your answers are, and not about when they change: that an answer has changed, and "
            "when, is not hidden, and whoever sees your reports may notice it."
        )


CONDITION = (
    "A device keeps a ledger of what it has sent, and reports through it alone: one that is copied, put back from a "
    "backup or removed sends anew, and what its reports reveal adds up."
)
KEPT_ON_DEVICE = (
    "Your device keeps a list of what it has sent (a ledger), to send no more than was promised. It stays there."
)
