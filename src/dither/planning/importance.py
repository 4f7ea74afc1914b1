"""What matters more: of the questions some, of the numbers of a question some, of the queries about ranges some.

`plan(..., weights={"mean(income)": 9.0, "histogram(job)": {"nurse": 5.0}})`. The measure of a plan is

    sum over questions and their numbers of  weight * MSE / (scale^2 * numbers)   /   the same sum of the weights alone,

so a question counts as much as its numbers do on average, and among them the error is a weighted mean. A number for a
question is that weight for all of its numbers: five for all labels is five for the histogram, and one for all is
nothing said. An attribute's name stands for its first question. For ranges the mapping says which queries will be
asked and how often (`ranges.query_workload`), which changes what is predicted and who is asked what; only the ratios of
these numbers count.

Weights are public facts about the analyst's interest. They change who is asked what, never what a report promises.
"""

from collections.abc import Mapping
from typing import Any

from dither.core.checks import as_float
from dither.errors import ParameterError
from dither.questions.catalogue import named
from dither.questions.question import Question

Weights = Mapping[str, float | Mapping[Any, float]]

LEAST_WEIGHT, LARGEST_WEIGHT = 1e-9, 1e9  # in sums of them none is lost, and none is infinite


def importances(asked: tuple[Question, ...], weights: Weights) -> dict[Question, float]:
    """The questions, each with what of it matters, and how much each matters as a whole; 1 where nothing is said."""
    given = _by_question(asked, weights)
    found = {}
    for each in asked:
        weight = given.get(str(each), 1.0)
        if not isinstance(weight, Mapping):
            found[each] = _checked(f"the weight of {each}", weight)
        elif not weight:
            found[each] = 1.0
        else:
            own = {name: _checked(f"a weight in {each}", number) for name, number in weight.items()}
            question, importance = each.weighted(own)
            found[question] = importance
    return found


def told_weights(asked: tuple[Question, ...], weights: Weights) -> dict[str, float | dict[str, float]]:
    """The weights as they were given, by the names of questions, for a file."""
    by_name = {str(each): each for each in asked}
    return {
        name: by_name[name].names_of(weight) if isinstance(weight, Mapping) else float(weight)
        for name, weight in _by_question(asked, weights).items()
        if weight != {}
    }


def _by_question(asked: tuple[Question, ...], weights: Weights) -> dict[str, float | Mapping[Any, float]]:
    known = {str(each) for each in asked}
    meant = [(first_of(asked, name), weight) for name, weight in weights.items()]
    given = dict(meant)
    if len(given) < len(meant):
        raise ParameterError("weights: the same question has two; an attribute's name means its first question")
    if not set(given) <= known:
        raise ParameterError(f"weights: no such question is asked; there are {', '.join(map(str, asked[:12]))}")
    return given


def _checked(what: str, weight: Any) -> float:
    if not LEAST_WEIGHT <= as_float(weight) <= LARGEST_WEIGHT:
        raise ParameterError(
            f"{what} must be a number from {LEAST_WEIGHT:g} to {LARGEST_WEIGHT:g}; leave out what does not matter"
        )
    return float(weight)


def first_of(asked: tuple[Question, ...], name: str) -> str:
    """The name of an attribute stands for the first question about it; of a question, any way to write it will do."""
    first = next((each for each in asked if name in each.names), None)
    meant = named(asked, str(name)) if first is None else first
    return name if meant is None else str(meant)
