"""A trained model from its file: coefficients, encoding and guarantee, without the training.

`LinearModel.to_dict` writes it. What comes back predicts, and says what was promised; it cannot go on training.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.errors import ParameterError
from dither.learn.encoding import Encoder
from dither.learn.linear.base import FORMAT, LinearModel
from dither.learn.linear.models import Classifier, LinearRegression, LinearSVC, LogisticRegression
from dither.schema import Schema

MODELS: dict[str, type[LinearModel]] = {
    each.__name__: each for each in (LinearRegression, LogisticRegression, LinearSVC)
}


def load_model(source: str | Path | Mapping[str, Any]) -> Any:
    """A model from `to_dict`, or from the file that `dither train` wrote: it predicts, and says what was promised.

    >>> stored = LogisticRegression(epsilon=1.0).start(2, users=100).to_dict()
    >>> load_model(stored).predict([[0.5, 0.5]]).tolist()
    [0]
    """
    stored = source if isinstance(source, Mapping) else _read(Path(source))
    kind = MODELS.get(str(stored.get("model"))) if stored.get("format") == FORMAT else None
    if kind is None:
        raise ParameterError("this is not a model that dither wrote")
    try:
        model: Any = kind()
        if kind is LinearRegression:
            model.bounds = tuple(stored["labels"])
        if stored["schema"] is not None:
            model.encoder = Encoder(Schema.from_dict(stored["schema"]))
        if isinstance(model, Classifier):
            model._declare(classes=stored["labels"])
        coefficients = np.array(stored["coefficients"], dtype=np.float64)
        model.coef_, model.intercept_ = coefficients, float(stored["intercept"])
        model.n_features_in_ = len(coefficients)
        told = stored["guarantee"]
        simulated = told["established"] == "simulated"
        promised = NO_GUARANTEE if simulated else Guarantee(told["epsilon"], told["delta"], told["established"])
        model.promised_ = promised
        if coefficients.ndim == 1 and np.isfinite(coefficients).all() and math.isfinite(model.intercept_):
            return model
    except (KeyError, TypeError, ValueError):
        pass
    raise ParameterError("this model is damaged: train it again")


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if not isinstance(found, Mapping):
        raise ParameterError(
            f"the model file {path} cannot be read; a model file is what model.to_dict() gives, as JSON"
        )
    return found
