"""What liars can do to a plan, and whether they have: the worth of reports and honest sums of all parts together."""

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from dither.core.honest_sums import HonestSums, parted
from dither.core.worth import Worth
from dither.planning.groups import tally_of_groups
from dither.planning.plan_tally import PlanTally
from dither.utility.goodness import Goodness, goodness_of_sums
from dither.utility.influence import Influence, checked_share

if TYPE_CHECKING:
    from dither.planning.plans import Plan


def influence_on_plan(plan: "Plan", share: float) -> Influence:
    """What one report can do to each question, and what this share of liars can.

    Where people choose a budget, liars take the one in which a report reaches farthest. Budgets count by their numbers
    of users, and liars among them: what liars can do is at most what they could to a collection in which all users have
    that budget (decision 42). So it is a bound, made of the worst of each.
    """
    if plan.groups:
        every = [influence_on_plan(each, share) for each in plan.budgets.values()]
        widest: dict[str, Worth] = {}
        for worth in (worth for each in every for worth in each.worths):
            other = widest.get(worth.question, worth)
            ends = {
                name: choose(getattr(worth, name), getattr(other, name))
                for choose, name in ((min, "least"), (max, "most"), (min, "asked"), (min, "low"), (max, "high"))
            }
            widest[worth.question] = worth._replace(**ends, exact=worth.exact and len(every) == 1)
        untold = tuple(dict.fromkeys(name for each in every for name in each.unknown))
        sure = tuple(worth for name, worth in widest.items() if name not in untold)
        return Influence(plan.title, sure, checked_share("share", share), untold)
    total = sum(part.weight for part in plan.parts)
    turnout = plan.schedule.turnout  # all liars report in the round that they want to move
    asked = [(part, turnout * Fraction(plan.questions_per_user * part.weight, total)) for part in plan.parts]
    found = [pair for part, users in asked for pair in part.worths(users)]
    unknown = tuple(str(question) for question, worth in found if worth is None)
    known = tuple(worth for _, worth in found if worth is not None)
    return Influence(plan.title, known, checked_share("share", share), unknown)


def goodness_of_tally(plan: "Plan", tally: PlanTally, false_alarm: float) -> Goodness:
    """Whether honest reports can have made the tally of a plan."""
    plan.check_tally(tally)
    if plan.groups:  # how many users are in a group is for them to say
        sums = (each for group in plan.groups for each in _honest_sums(group.asked, tally_of_groups([group], tally)))
        return goodness_of_sums(sums, false_alarm)
    return goodness_of_sums(_honest_sums(plan, tally), false_alarm)


def _honest_sums(plan: "Plan", tally: PlanTally) -> Iterator[HonestSums]:
    answered = [tally.parts[part.name].n for part in plan.parts]
    trials, chances = sum(answered) / plan.questions_per_user, plan.shares
    if plan.questions_per_user == len(plan.parts):
        # Who answers every question sends one report about each. Of what is lost on the way, no more is expected to
        # be about one than about another: the chance is that of draws without replacement (Hoeffding, theorem 4).
        trials, chances = sum(answered), [1 / len(plan.parts)] * len(plan.parts)
    for part, seen, chance in zip(plan.parts, answered, chances, strict=True):
        if len(plan.parts) > 1:
            yield HonestSums.of(f"{part.name}: reports about it", seen, trials, chance, chance)
        yield from parted(part.name, part.mechanism.honest_sums(tally.parts[part.name]))
