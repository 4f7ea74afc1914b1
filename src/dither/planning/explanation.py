"""A plan in words: what is asked, of whom, how, and why."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dither.display.significant_digits import size
from dither.utility.influence import percentage

if TYPE_CHECKING:
    from dither.planning.plans import Plan

_LOOSE = 3.0  # a limit further below says more about the limit than about the plan


def explain_plan(plan: "Plan") -> str:
    """In words: what is asked, how, and why."""
    way, *others = plan.prediction.compared
    best = plan.rmse
    lines = [
        f"{_who(plan)}, {_budgets(plan)}.",
        f"All that a user reports together: {plan.guarantee}.",
    ]
    if others and best > 0:
        liars = plan.prediction.liars
        worst = f" at the worst that {percentage(liars)} of liars can do" if liars else ""
        lines.append(
            f"Of the ways compared this one ({way}) has the smallest error{worst}: {best:.3g} of a scale, on average."
        )
        next_best = plan.prediction.compared[others[0]]
        lines.append(f"The next best ({others[0]}) has {next_best:.3g}, {next_best / best - 1:.1%} more.")
    if best < _LOOSE * plan.prediction.limit and not plan.prediction.informed:
        lines.append(
            f"No plan with this epsilon and so many users can be below {plan.prediction.limit:.3g} for all users; "
            f"this one is {best / plan.prediction.limit:.2f} times that."
        )
    pairs = [part.name for part in plan.parts if len(part.questions) > 1 and len(part.columns) > 1]
    if pairs:
        lines.append(f"Asked together, two numbers in one report: {'; '.join(pairs[:3])}.")
    keys = [part.name for part in plan.parts if len(part.questions) > len(part.columns)]
    if keys:
        lines.append(f"Answered by one report: {'; '.join(keys[:3])}.")
    put = [pair for part in plan.parts for pair in zip(part.questions, part.forms, strict=True)]
    remarks = sorted({form.remark for _, form in put if form.remark})
    lines += [
        f"{_listed([str(question) for question, form in put if form.remark == remark])}: {remark}" for remark in remarks
    ]
    lines += [_liars(plan), _whom(plan)]
    return "\n".join(lines)


def _whom(plan: "Plan") -> str:
    """Whose errors are predicted."""
    prior, worst = "users like those of the prior", f"the worst {plan.users:,} users"
    if not plan.prediction.informed:
        return f"Predicted errors are for {worst}; real ones are usually kinder."
    known = plan.prediction.known
    if len(known) in (0, len(plan.questions)):
        return f"Predicted errors are for {prior}."
    return f"Predicted errors are for {prior} in {_listed(known)}, and for {worst} in the other questions."


def _liars(plan: "Plan") -> str:
    """What users can do who send what they like."""
    found = plan.influence(plan.prediction.liars or 0.01)
    if found.unknown:
        return f"How far liars could move {_listed(found.unknown)} is not known."
    worst = found.worst
    shift = worst.worst_shift(found.share)
    part = float(shift / (worst.high - worst.low))
    range_ = f"{part:.1%} of its range" if part < 1 else "more than its whole range"
    other = ", and no other question by more of its range" if len(found.worths) > 1 else ""
    return (
        f"Liars: {percentage(found.share)} of the users could move {worst.question} by up to {size(float(shift))}, "
        f"{range_}{other}."
    )


def _who(plan: "Plan") -> str:
    count = len(plan.parts)
    if plan.questions_per_user == count:
        return "Every user answers every question" if len(plan.questions) > 1 else "Every user answers the question"
    what = f"of {count} questions" if count == len(plan.questions) else f"of {count} groups of questions"
    if len({part.weight for part in plan.parts}) > 1:
        return f"Every user answers one {what}, drawn at random, more often where the variance is larger"
    return f"Every user answers {plan.questions_per_user} {what}, drawn at random"


def _budgets(plan: "Plan") -> str:
    spent = [part.mechanism.epsilon for part in plan.parts]
    if max(spent) - min(spent) <= 1e-9:
        return f"with epsilon {spent[0]:.6g}" + (" each" if plan.questions_per_user > 1 else "")
    return f"with epsilon from {min(spent):.3g} to {max(spent):.3g}, more where it helps more"


def _listed(names: Sequence[str], most: int = 3) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest:,} more" if rest > 0 else "")
