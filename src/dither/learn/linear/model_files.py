"""A trained model from its file: coefficients, encoding and guarantee, without the training.

`LinearModel.to_dict` writes it. What comes back predicts, and says what was promised; it cannot go on training.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from dither.core.decoding import decoded
from dither.core.guarantee import NO_GUARANTEE, Guarantee, Model, Neighbours
from dither.errors import ParameterError
from dither.learn.encoding import Encoder
from dither.learn.linear.base import FORMAT
from dither.learn.linear.models import LinearRegression, LinearSVC, LogisticRegression
from dither.schema import Schema

Trained = LinearRegression | LogisticRegression | LinearSVC
MODELS: dict[str, type[Trained]] = {each.__name__: each for each in (LinearRegression, LogisticRegression, LinearSVC)}


Number = Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]


class GuaranteeFormat(msgspec.Struct, forbid_unknown_fields=True):
    epsilon: Annotated[float, msgspec.Meta(ge=0)] | None
    delta: Annotated[float, msgspec.Meta(ge=0, le=1)]
    established: Literal["exact", "bound", "simulated"]
    model: Model = "local"
    neighbours: Neighbours = "replace"


class ModelFormat(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    model: Literal["LinearRegression", "LogisticRegression", "LinearSVC"]
    coefficients: Annotated[list[Number], msgspec.Meta(min_length=1)]
    intercept: Number | Annotated[list[Number], msgspec.Meta(min_length=3)]  # of more than two classes, one for each
    labels: Annotated[list[str | bool | int | Number], msgspec.Meta(min_length=2)]
    schema: dict[str, dict[str, Any]] | None
    mechanism: str
    users: Annotated[int, msgspec.Meta(ge=1)]
    guarantee: GuaranteeFormat
    label: str | None = None  # what is predicted, where `dither train` wrote the file


def load_model(source: str | Path | Mapping[str, Any]) -> Trained:
    """A model from `to_dict`, or from the file that `dither train` wrote: it predicts, and says what was promised.

    >>> stored = LogisticRegression(epsilon=1.0).start(2, users=100).to_dict()
    >>> load_model(stored).predict([[0.5, 0.5]]).tolist()
    [0]
    """
    stored = source if isinstance(source, Mapping) else _read(Path(source))
    if stored.get("format") != FORMAT:
        raise ParameterError("this is not a model that dither wrote, or its format is of a newer version: upgrade")
    told = decoded(dict(stored), ModelFormat, "this model is damaged")
    model = MODELS[told.model]()
    if told.schema is not None:
        model.encoder = Encoder(Schema.from_dict(told.schema))
    model._restore(told.labels)
    scores = len(told.intercept) if isinstance(told.intercept, list) else 1
    if scores != model._scores:
        raise ParameterError("this model is damaged: intercept: expected one, or of more than two classes one for each")
    features, odd = divmod(len(told.coefficients), scores)
    if odd:
        raise ParameterError("this model is damaged: coefficients: expected as many for each class")
    if model.encoder is not None and model.encoder.d != features:
        raise ParameterError(f"this model is damaged: coefficients: expected {model.encoder.d}, one for each feature")
    model.coef_, model.intercept_ = np.array(told.coefficients), told.intercept
    if scores > 1:
        model.coef_, model.intercept_ = model.coef_.reshape(scores, features), np.array(told.intercept)
    model.n_features_in_ = features
    promised = told.guarantee
    if promised.established == "simulated":
        model.promised_ = NO_GUARANTEE
    elif promised.epsilon is None:
        raise ParameterError("this model is damaged: guarantee.epsilon: expected float, got null")
    else:
        model.promised_ = Guarantee(
            promised.epsilon,
            promised.delta,
            promised.established,
            model=promised.model,
            neighbours=promised.neighbours,
        )
    return model


def _read(path: Path) -> Mapping[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        pass
    raise ParameterError(f"the model file {path} cannot be read; a model file is what model.to_dict() gives, as JSON")
