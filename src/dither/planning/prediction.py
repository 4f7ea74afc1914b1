"""What a plan will cost, as it was predicted when it was made. It is stored beside the plan, outside its hash."""

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from dither.errors import ParameterError
from dither.planning.questions import Question


class Prediction(NamedTuple):
    """What a plan will cost: for each question the standard error, and the error of the other ways to ask."""

    errors: Mapping[str, float]  # in the question's own units; of a cell, on average
    compared: Mapping[str, float]  # the best first: the square root of the mean over questions of MSE / scale^2
    limit: float  # what no plan can be below, by the same measure; 0 where it is not known
    informed: bool  # some are for users like those of a prior; otherwise all are for the worst
    known: tuple[str, ...] = ()  # the questions that a prior speaks of


NOTHING = Prediction({}, {}, 0.0, False)


def checked_prediction(stored: Any, asked: tuple[Question, ...]) -> Prediction:
    """A stored prediction, checked for its shape."""
    names = {str(question) for question in asked}
    found = NOTHING
    if isinstance(stored, dict) and set(stored) | {"known"} == set(Prediction._fields):
        found = Prediction(**{**stored, "known": tuple(stored.get("known", ()))})
    errors, compared, limit = found.errors, found.compared, found.limit
    if (
        not (isinstance(errors, dict) and isinstance(compared, dict) and isinstance(found.informed, bool))
        or set(errors) != names
        or not compared
        or not all(map(_is_size, [*errors.values(), *compared.values(), limit]))
        or not (set(found.known) <= names and (found.informed or not found.known))
    ):
        raise ParameterError("this is not a plan: its prediction does not fit its questions; make the plan again")
    return found


def _is_size(number: Any) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number <= sys.float_info.max
