"""A plan in words: what is asked, of whom, how, and why."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

from dither.core.exact import upward
from dither.core.schedule import ONE
from dither.display.significant_digits import size
from dither.planning.budgets import regions_in_words
from dither.planning.choose import CROSSED
from dither.planning.groups import pooled_errors
from dither.planning.rounds_in_words import rounds_explained
from dither.utility.influence import percentage

if TYPE_CHECKING:
    from dither.planning.plans import Plan

_SAME = 1.001  # errors that are within such a factor are told once
_TELLING = 6.0  # a local epsilon beyond protects next to nothing
_LOOSE = 3.0  # a limit further below says more about the limit than about the plan


def explain_plan(plan: "Plan") -> str:
    """In words: what is asked, how, and why; of a plan with groups also what is public, and of each budget."""
    if not plan.groups:
        return _explained(plan)
    lines = [*_public(plan), f"What is promised is promised among records of one group; at most {plan.guarantee}."]
    for label, asked in plan.budgets.items():
        heading = (
            [f"Users of the budget {label} ({asked.users:,} are expected){_inside(plan, label)}:"] if label else []
        )
        lines += [*heading, _explained(asked)]
    return "\n".join(lines)


def _public(plan: "Plan") -> list[str]:
    """What a report says in the clear, and what groups are good for."""
    names = _listed([f"{name} ({attribute.k:,} values)" for name, attribute in plan.public.items()], 6)
    found = [f"In the clear: every report says {names}. Nothing hides that; it makes {len(plan.groups):,} groups."]
    alike = len(plan.groups) // len(plan.budgets)
    if alike > 1:
        found.append("Groups with the same budget are asked alike, and their reports are added up over all users.")
    for label, regions in plan.regions.items():
        if regions:
            found.append(
                f"Whoever chooses {label} says in the clear that {regions_in_words(regions)}; what is promised is "
                "promised among such numbers. A device moves others to the border."
            )
    fewest = min(plan.groups, key=lambda group: group.users)
    question = next(iter(plan.predicted))
    found.append(
        f"The smallest group ({fewest.name}) has {fewest.users:,} users: {question} has a predicted error of "
        f"{size(fewest.predicted[question])} there, and of {size(plan.predicted[question])} over all users."
    )
    if len(plan.budgets) > 1:
        about = [str(each) for each in plan.questions if not plan.narrowed.intersection(each.names)]
        alike = ""
        if about:
            error = size(pooled_errors(plan)[about[0]])
            alike = f" Weighing them by their errors would have {error} for {about[0]}, if users of all are alike."
        found.append(f"Over all users budgets count by their numbers of users, whatever made people choose.{alike}")
    return found


def _inside(plan: "Plan", label: str) -> str:
    regions = plan.regions[label]
    return f", whose {regions_in_words(regions)}" if regions else ""


def _explained(plan: "Plan") -> str:
    """A plan without groups in words."""
    way, *others = plan.prediction.compared
    best = plan.rmse
    lines = [
        f"{_who(plan)}, {_budgets(plan)}.",
        f"All that a user reports together: {plan.guarantee}.",
        *rounds_explained(plan),
        *_phases(plan),
        *_shuffled(plan),
    ]
    if others and best > 0:
        liars = plan.prediction.liars
        lies = f" at the worst that {percentage(liars)} of liars can do" if liars else ""
        average = "by the weights" if plan.prediction.weights else "on average"
        measure = f"the smallest error{lies}: {best:.3g} of a scale, {average}"
        if plan.prediction.goal:
            measure = f"the smallest largest error{lies}: with 95% no number is off by more than {best:.3g} of a scale"
        lines.append(f"Of the ways compared this one ({way}) has {measure}.")
        next_best = plan.prediction.compared[others[0]]
        lines.append(f"The next best ({others[0]}) has {next_best:.3g}, {next_best / best - 1:.1%} more.")
    worst = plan.prediction.worst or best
    if worst < _LOOSE * plan.prediction.limit and not plan.prediction.informed:
        lines.append(
            f"No plan with this epsilon and so many users can be below {plan.prediction.limit:.3g} for all users; "
            f"this one is {worst / plan.prediction.limit:.2f} times that{_own_worst(worst, best)}."
        )
    several = [part for part in plan.parts if len(part.questions) > 1]
    pairs = [part.name for part in several if part.questions[0].pairs]
    if pairs:
        lines.append(f"Asked together, two numbers in one report: {'; '.join(pairs[:3])}.")
    lines += _tables(plan)
    shown = [part for part in several if not any(question.supporting for question in part.questions)]
    keys = [part.name for part in shown if part.keys is not None]
    if keys:
        lines.append(f"Answered by one report: {'; '.join(keys[:3])}.")
    lines += _told_by_others(plan)
    mechanisms = {question: part.mechanism for part in plan.parts for question in part.questions}
    remarked = {
        str(question): question.form(mechanisms[question]).remark if question.reported else question.remark
        for question in plan.weighted_questions
    }
    remarks = sorted({remark for remark in remarked.values() if remark})
    lines += [f"{_listed([name for name in remarked if remarked[name] == remark])}: {remark}" for remark in remarks]
    lines += _lists(plan)
    lines += [*_weights(plan), *_server(plan), _liars(plan), _whom(plan)]
    return "\n".join(lines)


def _lists(plan: "Plan") -> list[str]:
    """What questions that find their items themselves will find."""
    told = plan.prediction.lists
    found = {str(each): each.forecast_in_words(told[str(each)]) for each in plan.measured if str(each) in told}
    return [f"{name}: {said}" for name, said in found.items() if said]


def _phases(plan: "Plan") -> list[str]:
    """Who is asked when, what has to be seen to, and what the second phase wins."""
    if plan.after is not None:
        before = plan.after.plan
        learned = [part.name for part in plan.parts if part.mechanism.learned_cuts() is not None]
        told = f" It asks {_listed(learned)} by where the first phase saw the people." if learned else ""
        return [
            f"The second of two phases: {plan.users:,} users are expected, other ones than the {before.users:,} of the "
            f"first (plan {before.fingerprint[:12]}, tally {plan.after.tally[:12]}).{told} Results need both tallies."
        ]
    if plan.phases is None:
        return []
    first, second = plan.phases.users
    lines = [
        f"The first of two phases: {first:,} users answer this plan, and {second:,} others the next one, which "
        "plan.next(tally) makes. Nobody answers both, and who answers which is decided without looking at a record: "
        "then all of it together promises what one phase does."
    ]
    lines += [part.questions[0].learns for part in plan.parts if part.questions[0].learns]
    phased = [part.name for part in plan.parts if part.mechanism.phased]
    before = plan.prediction.one_phase
    won = {name: before[name] / plan.predicted[name] for name in before if plan.predicted[name] > 0}
    won = {name: ratio for name, ratio in won.items() if ratio > _SAME}
    if won:
        listed = _listed([f"{size(before[name])} for {name} instead of {size(plan.predicted[name])}" for name in won])
        lines.append(f"Worth of the second phase: in one phase predicted errors would be {listed}.")
    users, weighted = sum(plan.phases.users), {str(question): question for question in plan.weighted_questions}
    for part, share in zip(plan.parts, plan.shares.tolist(), strict=True):
        question = weighted.get(str(part.questions[0]), part.questions[0])  # with the queries that will be asked
        more = question.won_by_phases(part.mechanism, users * share, users) if part.mechanism.phased else None
        if more is not None:
            lines.append(f"Worth of the second phase for {part.name}: {more}.")
    if not won and not phased and not plan.phases.ask:
        lines.append("No question learns anything from the first phase: plan in one.")
    return lines


def _shuffled(plan: "Plan") -> list[str]:
    """What a shuffler adds, who has to be trusted for it, and what it is worth."""
    crowd, before = plan.crowd, plan.prediction.unshuffled
    if crowd is None:
        return []
    named = " Which question a report answers is seen, whose it is is not." if len(plan.parts) > 1 else ""
    record, forwarded, limit = "the record of a user is", "", "epsilon"
    if plan.schedule.repeats:
        record, limit = "the records of a user in all rounds are", "first"
        forwarded = ", each user's once a round, mixed anew in every round"
    told = plan.report_guarantee.epsilon
    lines = [
        f"Shuffled, the reports of at least {crowd.batch:,} users in a batch: {crowd.guarantee}, whatever {record} "
        f"replaced by. All users of a batch hide each other.{named}",
        *_shuffled_rounds(plan),
        f"The shuffler is trusted to mix single reports{forwarded}, to tell nobody who sent what, and to forward no "
        f"smaller batch; whoever sees the reports of a user before that learns what epsilon {upward(told, 3)} allows"
        + _in_all_rounds(plan)
        + (f": next to everything. {limit}={_TELLING:g} or less would limit that." if told > _TELLING else "."),
    ]
    more = {str(each): before[str(each)] / plan.predicted[str(each)] for each in plan.questions if before}
    more = {name: ratio for name, ratio in more.items() if math.isfinite(ratio)}
    if more:
        least, most = min(more, key=more.__getitem__), max(more, key=more.__getitem__)
        between = f" ({least}) to {more[most]:.3g} times ({most})" if len(more) > 1 else " times"
        lines.append(
            f"Worth of shuffling: with epsilon {crowd.epsilon:g} and no shuffler errors would be "
            f"{more[least]:.3g}{between} as large."
        )
    return lines


def _in_all_rounds(plan: "Plan") -> str:
    """What the reports of a user tell without the crowd, if there are those of several rounds."""
    together = plan.guarantee.epsilon
    if together <= plan.report_guarantee.epsilon:
        return ""
    everything = ", next to everything," if together > _TELLING else ""
    return f" in a round, and epsilon {upward(together, 3)}{everything} in all of them"


def _shuffled_rounds(plan: "Plan") -> list[str]:
    """What rounds add to what a shuffler is to promise."""
    if not plan.schedule.repeats:
        return []
    if plan.schedule.mode == ONE:
        return [
            "That is for all rounds: each user is in one batch of one round. How many draw a round is chance; a round "
            "with fewer users than a batch has to wait."
        ]
    return [
        f"That is for the batches of all {plan.rounds:,} rounds together; those of one promise {plan.shuffled_round}. "
        "Noise is fresh in every round, so losses add up: by their sum, which is far below that of the guarantees."
    ]


def _told_by_others(plan: "Plan") -> list[str]:
    """Which questions are told by reports about others, too, as far as it is known beforehand how much."""
    found: dict[str, list[str]] = {}
    for one, share in zip(plan.parts, plan.shares.tolist(), strict=True):
        tellers = one.questions if one.table is None else (one.table,)
        asked = [each for other in plan.parts if other is not one for each in other.questions if not each.supporting]
        for question, teller in product(asked, tellers):
            shared = set(question.names) & set(teller.names)
            if shared and question.told_by(teller, one.mechanism, share) is not None:
                found.setdefault(str(question), []).append(str(teller))
    told = [f"{name} by those about {_listed(tellers)}" for name, tellers in found.items()]
    return [f"Every report counts. Told by other reports, too: {_listed(told)}."] if told else []


def _own_worst(worst: float, best: float) -> str:
    """The error for the worst users, where the plan was chosen for others."""
    return f", with an error of {worst:.3g} for the worst users" if worst > best * _SAME else ""


def _weights(plan: "Plan") -> list[str]:
    """What counted more, and the errors of numbers that were named."""
    weights, named = plan.prediction.weights, plan.prediction.named
    of_questions = [f"{name} counts {weight:g}" for name, weight in weights.items() if not isinstance(weight, Mapping)]
    of_numbers = [
        f"{number} in {name} counts {_weight(plan, name, number):g} (predicted error {size(error)})"
        for name, errors in named.items()
        for number, error in errors.items()
    ]
    if not of_questions and not of_numbers:
        return []
    more = ". The predicted error of a question is that of its numbers on average" if of_numbers else ""
    return [f"Weights: {_listed([*of_questions, *of_numbers], 6)}; what is not named counts 1{more}."]


def _weight(plan: "Plan", name: str, number: str) -> float:
    weights = plan.prediction.weights[name]
    return weights.get(number, 1.0) if isinstance(weights, Mapping) else weights


def _server(plan: "Plan") -> list[str]:
    """What the reports cost the server, and what it would cost in error to spare it that."""
    dearest = max(plan.parts, key=lambda part: part.mechanism.evaluations)
    most, counted = dearest.mechanism.evaluations, plan.prediction.counted
    if not most:
        return ["The server counts every report at once."]
    evaluations = f"{most:,} evaluation{'s' * (most > 1)}"
    by = type(dearest.mechanism).__name__
    told = f"A report costs the server at most {evaluations}, those about {dearest.name} by {by}"
    if not counted or plan.rmse <= 0:
        return [f"{told}; nothing cheaper can ask this."]
    return [f"{told}; with most_evaluations=0 the error would be {counted / plan.rmse - 1:.1%} larger."]


def _tables(plan: "Plan") -> list[str]:
    """Which questions are crossed, and what that won."""
    crossed = [(part.name, part.table) for part in plan.parts if part.table is not None]
    if not crossed:
        return []
    listed = "; ".join(f"{name} ({table.size:,} cells)" for name, table in crossed[:3])
    more = f"; and {len(crossed) - 3:,} tables more" if len(crossed) > 3 else ""
    apart = [error for way, error in plan.prediction.compared.items() if not way.endswith(CROSSED)]
    won = f" The best way without that has {min(apart):.3g}, {min(apart) / plan.rmse - 1:.1%} more." if apart else ""
    beside = f" Their table comes beside them, as {plan.tables[0]}." if plan.tables else ""
    return [f"Asked together, one report about all combinations: {listed}{more}.{won}{beside}"]


def _whom(plan: "Plan") -> str:
    """Whose errors are predicted."""
    prior, worst = "users like those of the prior", f"the worst {plan.users_of_phases:,} users"
    if not plan.prediction.informed:
        evenly = any(question.reference is not None for question in plan.measured)
        how = " The way to ask was chosen for numbers most of which are spread evenly." if evenly else ""
        return f"Predicted errors are for {worst}; real ones are usually kinder.{how}"
    known = plan.prediction.known
    if len(known) in (0, len(plan.measured)):
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
        return "Every user answers every question" if len(plan.measured) > 1 else "Every user answers the question"
    what = f"of {count} questions" if count == len(plan.measured) else f"of {count} groups of questions"
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
