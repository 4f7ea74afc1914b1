"""Budgets that people choose: an epsilon, and regions in which their numbers lie (001 section 4.1.3).

A **region** is an interval of a numeric attribute. Whoever chooses a budget with one says aloud that the number lies in
it, and is asked as if the attribute ended there: the noise of a mean shrinks with the width, so half of it is a quarter
of the variance. The plan of such a budget is an ordinary plan, for the schema with these ends (`schema_in`): prices,
predictions, reports and their certificate follow from it.

**What is promised.** Reports of the budget tell two of its records apart only as far as epsilon allows, wherever in the
region their numbers are. That they are in it is not hidden: it follows from the budget, which a report carries in the
clear. A number outside of the region is moved to its border, so that the promise holds for it as well; the result is
then about the border. In trials such a record is refused.

**What can be asked.** Results of budgets are put together in the units of the whole attribute, which works where a
result is a mean over users: `mean` and `sum` (`Question.regional`). Shares of values in regions that overlap by parts
have no common cells, and are refused.

Users of a region differ from others by design. So results about its attribute are always stratified: no pooling that
takes budgets to be alike is right for them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dither.core.checks import as_float, checked_epsilon, is_list
from dither.core.confidence import InUnits
from dither.core.estimate import MEAN, Estimate
from dither.display.significant_digits import plain_number
from dither.errors import ParameterError
from dither.questions.catalogue import questions
from dither.questions.question import Question
from dither.schema import Schema

_RULE = 'regions map numeric attributes to intervals, as in Budget(1.0, regions={"income": (100_000, 200_000)})'
_BUDGETS = 'epsilon maps budgets to numbers, as in epsilon={"careful": 0.5, "open": 2.0}'

Region = tuple[float, float]


@dataclass(frozen=True)
class Budget:
    """What people who choose it report with: an epsilon, and public regions in which some of their numbers lie.

    >>> upper = Budget(1.0, regions={"income": (100_000, 200_000)})
    >>> upper.epsilon, upper.regions
    (1.0, {'income': (100000.0, 200000.0)})
    """

    epsilon: float
    regions: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon))
        given = self.regions.items() if isinstance(self.regions, Mapping) else [("", ())]
        found: dict[str, Region] = {}
        for name, ends in given:
            numbers = tuple(map(as_float, ends)) if is_list(ends) else ()
            if not isinstance(name, str) or len(numbers) != 2 or not numbers[0] < numbers[1]:
                raise ParameterError(_RULE)
            found[name] = numbers[0], numbers[1]
        object.__setattr__(self, "regions", found)

    def __hash__(self) -> int:
        return hash((self.epsilon, tuple(self.regions.items())))


def checked_budgets(given: Mapping[Any, Any]) -> dict[str, Budget]:
    """What `dither.plan` was given as epsilon, where people choose: names, each with a number or a `Budget`."""
    if not given or not all(isinstance(name, str) and name for name in given):
        raise ParameterError(_BUDGETS)
    return {name: each if isinstance(each, Budget) else Budget(each) for name, each in given.items()}


def schema_in(schema: Schema, regions: Mapping[str, Sequence[float]]) -> Schema:
    """The schema with numeric attributes that end where the regions do."""
    if not regions:
        return schema
    narrowed = {}
    for name, (low, high) in regions.items():
        attribute: Any = schema.get(name)
        if attribute is None or attribute.kind != "numeric":
            raise ParameterError(f"regions: {name} is no numeric attribute of the schema; {_RULE}")
        if attribute.open or not attribute.low <= low < high <= attribute.high:
            raise ParameterError(
                f"regions: that of {name} must lie inside of the attribute, which is {attribute.in_words}"
            )
        narrowed[name] = attribute.between(low, high)
    return Schema({name: narrowed.get(name, attribute) for name, attribute in schema.items()})


def regions_in_words(regions: Mapping[str, Sequence[float]]) -> str:
    """As in `income is from 100,000 to 200,000`."""
    return " and ".join(
        f"{name} is from {plain_number(low)} to {plain_number(high)}" for name, (low, high) in regions.items()
    )


def regions_of(whole: Schema, own: Schema) -> dict[str, Region]:
    """The regions that a schema was narrowed to: where its numeric attributes have other ends."""
    found: dict[str, Region] = {}
    for name, attribute in own.items():
        if attribute.kind == "numeric" and attribute != whole[name]:
            found[name] = attribute.span
    return found


def refuse_in_regions(asked: Iterable[Question], regions: Iterable[str]) -> None:
    """Refuse questions about attributes with regions whose results cannot be put together."""
    names = set(regions)
    for question in asked:
        about = sorted(names.intersection(question.names))
        if about and not question.regional:
            raise ParameterError(
                f"{question}: where budgets have regions of {about[0]}, its mean and its sum can be asked for, since "
                f"other results of regions do not add up: ask for mean({about[0]}), or leave the regions out"
            )


def whole_questions(schema: Schema, asked: Iterable[Question], regions: Iterable[str]) -> tuple[Question, ...]:
    """The questions with the whole of every attribute; those about no region as they are."""
    names = set(regions)
    return tuple(
        questions(schema.private, [str(each)])[0] if names.intersection(each.names) else each for each in asked
    )


def in_units_of(whole: Question, own: Question, estimate: Estimate) -> Estimate:
    """A mean in a region, in the mechanism's units, as one in those of the whole attribute."""
    unit, centre = own.unit / whole.unit, (own.origin - whole.origin) / whole.unit
    if (unit, centre) == (1.0, 0.0):
        return estimate
    return replace(
        estimate,
        value=centre + unit * estimate.value,
        stderr=unit * estimate.stderr,
        bounds=MEAN,
        bias=None if estimate.bias is None else unit * estimate.bias,
        rule=None if estimate.rule is None else InUnits(estimate.rule, centre, unit),
        variance=None,
        original=None if estimate.original is None else in_units_of(whole, own, estimate.original),
    )
