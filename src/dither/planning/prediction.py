"""What a plan will cost, as it was predicted when it was made. It is stored beside the plan, outside its hash."""

import math
import sys
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from dither.errors import ParameterError
from dither.planning.importance import LARGEST_WEIGHT, LEAST_WEIGHT, importances
from dither.questions.question import Question

_NONE: Mapping[str, Any] = {}

Size = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]
Weight = Annotated[float, msgspec.Meta(ge=LEAST_WEIGHT, le=LARGEST_WEIGHT)]


class Prediction(NamedTuple):
    """What a plan will cost: for each question the standard error, and the error of the other ways to ask."""

    errors: Mapping[str, float]  # in the question's own units; of a cell, on average
    compared: Mapping[str, float]  # the best first: the square root of the mean over questions of MSE / scale^2
    limit: float  # what no plan can be below, by the same measure; 0 where it is not known
    informed: bool  # some are for users like those of a prior; otherwise all are for the worst
    known: tuple[str, ...] = ()  # the questions that a prior speaks of
    liars: float = 0.0  # the share of users whose lies `compared` covers, at their worst
    counted: float = 0.0  # the error of this way where the server can only count; 0 where that is not known
    weights: Mapping[str, float | Mapping[str, float]] = _NONE  # what mattered more: `compared` is weighted by it
    named: Mapping[str, Mapping[str, float]] = _NONE  # the errors of numbers that weights name
    worst: float = 0.0  # what `compared` says of the way that is taken, for the worst users; 0 where that is not known
    mean_of_rounds: Mapping[str, float] = _NONE  # of a plan with rounds, whose `errors` are those of one
    change: Mapping[str, float] = _NONE  # of a plan with rounds: from one to the next
    unshuffled: Mapping[str, float] = _NONE  # of a plan for a crowd: errors with the same epsilon and no shuffler
    goal: str = ""  # "maximum" where `compared` is the largest error / scale of all numbers, with a confidence of 95%
    asked: Mapping[str, "Prediction"] = _NONE  # of a plan with groups: what users of each budget are asked
    lists: Mapping[str, Mapping[str, float]] = _NONE  # of questions that find their items: what they will find
    one_phase: Mapping[str, float] = _NONE  # of a plan with phases: errors if the same users were asked in one

    def stored(self) -> dict[str, Any]:
        """For a file. What is not known or was not said is left out, as it was before it could be."""
        first = ("errors", "compared", "limit", "informed", "known")
        found = {name: value for name, value in self._asdict().items() if value or name in first}
        asked = {label: each.stored() for label, each in self.asked.items()}
        return {**found, "asked": asked} if asked else found


class PredictionFormat(msgspec.Struct, forbid_unknown_fields=True):
    errors: dict[str, Size]
    compared: Annotated[dict[str, Size], msgspec.Meta(min_length=1)]
    limit: Size
    informed: bool
    known: tuple[str, ...] = ()
    liars: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    counted: Size = 0.0
    weights: dict[str, Weight | dict[str, Weight]] = {}
    named: dict[str, dict[str, Size]] = {}
    worst: Size = 0.0
    mean_of_rounds: dict[str, Size] = {}
    change: dict[str, Size] = {}
    unshuffled: dict[str, Size] = {}
    goal: Literal["", "maximum"] = ""
    asked: dict[str, "PredictionFormat"] = {}
    lists: dict[str, dict[str, Size]] = {}
    one_phase: dict[str, Size] = {}


NOTHING = Prediction({}, {}, 0.0, False)


def checked_prediction(stored: PredictionFormat, asked: tuple[Question, ...]) -> Prediction:
    """A stored prediction, if it is one of these questions."""
    names = {str(question) for question in asked}
    if set(stored.errors) != names:
        reason = "errors: expected one number for each question"
    elif not set(stored.known) <= names or (stored.known and not stored.informed):
        reason = "known: expected questions of the plan, and none where informed is false"
    elif not {*map(frozenset, (stored.mean_of_rounds, stored.change, stored.unshuffled, stored.one_phase))} <= {
        frozenset(names),
        frozenset(),
    }:
        reason = "mean_of_rounds, change, unshuffled and one_phase: expected one number for each question, or none"
    elif not set(stored.lists) <= names:
        reason = "lists: expected questions of the plan"
    elif wrong := _wrong_weights(stored, asked):
        reason = wrong
    else:
        return Prediction(**{**msgspec.structs.asdict(stored), "asked": {}})
    raise ParameterError(f"this is not a plan: prediction.{reason}; make the plan again")


def _wrong_weights(stored: PredictionFormat, asked: tuple[Question, ...]) -> str | None:
    """What is wrong with stored weights, if they are not what somebody could have given for these questions."""
    try:
        weighted = importances(asked, stored.weights)
    except ParameterError as error:
        return f"weights: {error}"
    places = {str(question): question.place_of for question in weighted if question.shape}
    known = all(name in places and None not in map(places[name], own) for name, own in stored.named.items())
    return None if known else "named: expected numbers of questions that have several"


def prediction_of_budgets(budgets: Mapping[str, tuple[Prediction, int]], totals: frozenset[str]) -> Prediction:
    """What a plan with groups will cost, for all users: those of each budget by their number, stratified.

    With n_b of n users the error is that of sum (n_b / n) y_b; of `totals`, which grow with the number of users, that
    of the sum. What is known of one budget alone (a limit, a way to ask) is kept there.
    """
    (first, _), *others = budgets.values()
    asked = {label: each for label, (each, _) in budgets.items()}
    if not others:
        return first._replace(asked=asked)
    users = sum(count for _, count in budgets.values())
    shares = [count / users for _, count in budgets.values()]

    def together(errors: Iterable[float], total: bool = False) -> float:
        return math.hypot(*(error * (1 if total else share) for error, share in zip(errors, shares, strict=True)))

    predictions = [each for each, _ in budgets.values()]
    return Prediction(
        {name: together((each.errors[name] for each in predictions), name in totals) for name in first.errors},
        {"groups by budget": together(next(iter(each.compared.values())) for each in predictions)},
        0.0,
        any(each.informed for each in predictions),
        first.known,
        first.liars,
        weights=first.weights,
        asked=asked,
    )
