"""What a plan will cost, as it was predicted when it was made. It is stored beside the plan, outside its hash."""

import sys
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import msgspec

from dither.errors import ParameterError
from dither.questions.question import Question

Size = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]


class Prediction(NamedTuple):
    """What a plan will cost: for each question the standard error, and the error of the other ways to ask."""

    errors: Mapping[str, float]  # in the question's own units; of a cell, on average
    compared: Mapping[str, float]  # the best first: the square root of the mean over questions of MSE / scale^2
    limit: float  # what no plan can be below, by the same measure; 0 where it is not known
    informed: bool  # some are for users like those of a prior; otherwise all are for the worst
    known: tuple[str, ...] = ()  # the questions that a prior speaks of
    liars: float = 0.0  # the share of users whose lies `compared` covers, at their worst
    counted: float = 0.0  # the error of this way where the server can only count; 0 where that is not known

    def stored(self) -> dict[str, Any]:
        """For a file. What is not known is left out, as it was before it could be."""
        fields = self._asdict()
        return {name: value for name, value in fields.items() if value or name not in ("liars", "counted")}


class PredictionFormat(msgspec.Struct, forbid_unknown_fields=True):
    errors: dict[str, Size]
    compared: Annotated[dict[str, Size], msgspec.Meta(min_length=1)]
    limit: Size
    informed: bool
    known: tuple[str, ...] = ()
    liars: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    counted: Size = 0.0


NOTHING = Prediction({}, {}, 0.0, False)


def checked_prediction(stored: PredictionFormat, asked: tuple[Question, ...]) -> Prediction:
    """A stored prediction, if it is one of these questions."""
    names = {str(question) for question in asked}
    if set(stored.errors) != names:
        reason = "errors: expected one number for each question"
    elif not set(stored.known) <= names or (stored.known and not stored.informed):
        reason = "known: expected questions of the plan, and none where informed is false"
    else:
        return Prediction(**msgspec.structs.asdict(stored))
    raise ParameterError(f"this is not a plan: prediction.{reason}; make the plan again")
