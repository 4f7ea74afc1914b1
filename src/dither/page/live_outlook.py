"""How far a collection is: the error now, what it will be at the end, and how many users a wanted error needs.

What a user adds is independent of what others do, so a standard error shrinks with the root of the number of users:
from s now, with n users, to s sqrt(n / N) with N. Where an answer also holds a guess (of ranges: inside cells, and
about three attributes at a time), that part, the doubt g, does not shrink by asking more people in the same way, and is
left as it is:

    error with N users = sqrt(s^2 n / N + g^2),        users for an error of e:  N = n s^2 / (e^2 - g^2).

A total grows with the number of users, and its error with the root of it: of those no number of users makes the error
smaller, and none is told. All are for users like those who have reported so far.

Errors are told as what a reader adds and subtracts: the half width of a 95% interval, 1.96 standard errors; of several
numbers the root of the mean square.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dither.display.markup import Markup, element, given
from dither.display.significant_digits import percent_size, size
from dither.page.export import people, rms, typical_answers
from dither.planning import Plan
from dither.planning.plan_estimates import PlanEstimates
from dither.questions.question import Question

HALF_WIDTH = 1.959963984540054  # standard errors: of a normal 95% interval
WITHIN = 1.0  # per cent, of a share or of the width of a domain: what a page begins with
_DASH = "\u2013"  # as in the tables of the report


@dataclass(frozen=True)
class Outlook:
    """The error of one question now, and what more users do to it."""

    question: str
    users: int
    noise: float  # a standard error
    doubt: float
    planned: float  # a standard error, predicted before anything was collected
    width: float  # of what it can be: 1 of a share
    share: bool
    total: bool = False

    @property
    def now(self) -> float:
        """The standard error."""
        return math.hypot(self.noise, self.doubt)

    def after(self, users: int) -> float:
        """The standard error with so many users.

        >>> Outlook("mean(age)", 100, 3.0, 4.0, 1.0, 10.0, False).after(400) == math.hypot(1.5, 4.0)
        True
        """
        more = users / self.users if self.users else math.nan
        return math.hypot(self.noise * (more**0.5 if self.total else more**-0.5), self.doubt)

    def needed(self, within: float) -> float:
        """How many users it takes until a 95% interval is this share of the width to each side; infinite if none do.

        >>> round(Outlook("histogram(job)", 1000, 0.02, 0.0, 0.01, 1.0, True).needed(0.0196))
        4000
        """
        error = within * self.width / HALF_WIDTH
        if self.total or not (math.isfinite(self.noise) and math.isfinite(error)) or error <= self.doubt:
            return math.inf
        return self.users * self.noise**2 / (error**2 - self.doubt**2)

    def written(self, error: float) -> str:
        """A half width."""
        if not math.isfinite(error):
            return _DASH
        return f"± {(percent_size if self.share else size)(HALF_WIDTH * error)}"


def outlooks(plan: Plan, estimates: PlanEstimates) -> Iterator[Outlook]:
    """One for each question."""
    users = people(plan, estimates)
    for question in plan.questions:
        noise, doubt = _errors(question, estimates)
        yield Outlook(
            str(question),
            users,
            noise,
            doubt,
            plan.predicted.get(str(question), math.nan),
            float(question.ends[1] - question.ends[0]) if question.averages else 1.0,
            not question.averages,
            question.totals,
        )


def _errors(question: Question, estimates: PlanEstimates) -> tuple[float, float]:
    """The noise of what a question asks now, and what in it is guessed."""
    if question.answers_conditions:
        found = estimates.ranges(*question.names)
        if not found.n:
            return math.nan, 0.0
        answers = typical_answers(found)
        return rms(answers.noise), rms(answers.doubt)
    return rms(np.ravel(estimates.single(str(question)).stderr)), 0.0


def outlook_section(plan: Plan, estimates: PlanEstimates, within: float = WITHIN) -> Markup:
    """A table of all questions. The numbers in its rows let a page work the last two columns out for another error."""
    found = list(outlooks(plan, estimates))
    users, planned = found[0].users, max(plan.users, 1)
    end = max(users, planned)
    heads = ("question", "now", "at the end", "planned", "users needed", "still needed")
    head = (element("th", name, scope="col", class_="right" if place else None) for place, name in enumerate(heads))
    rows = (_row(each, end, within) for each in found)
    table = element("table", element("thead", element("tr", *head)), element("tbody", *rows))
    told = (
        f"What to add and subtract for a 95% interval: now, with {users:,} users; at the end, with {end:,} users like "
        "them; and as it was planned, for the worst answers there can be. The last columns say how many users bring it "
        "down to what you write above: in percentage points of a share, and of a number in per cent of its range."
    )
    return element(
        "div",
        element("p", told, class_="prose"),
        element("div", table, class_="scroll", tabindex=0, role="region", aria_label="How far the collection is"),
    )


def _row(each: Outlook, end: int, within: float) -> Markup:
    needed = each.needed(within / 100)
    cells = [
        each.written(each.now),
        each.written(each.after(end)),
        each.written(each.planned),
        users_written(needed),
        users_written(max(0.0, needed - each.users)),
    ]
    numbers = {
        "data_users": each.users,
        "data_noise": f"{each.noise:.9g}",
        "data_doubt": f"{each.doubt:.9g}",
        "data_width": f"{each.width:.9g}",
        "data_total": "yes" if each.total else None,
    }
    return element(
        "tr",
        element("th", given(each.question), scope="row"),
        *(element("td", cell, class_="right") for cell in cells),
        **numbers,
    )


def users_written(users: float) -> str:
    """A number of users, rounded up.

    >>> users_written(1200.1), users_written(0.0), users_written(math.inf) == _DASH
    ('1,201', 'none', True)
    """
    if not math.isfinite(users) or users > 1e15:
        return _DASH
    return f"{math.ceil(users - 1e-9):,}" if users > 0 else "none"
