"""The three models: what a label means, and the residual of its loss.

**Clipping is a choice of loss.** With c = 1/2 the logistic loss becomes linear for records on the wrong side, and a
quarter as noisy: for an optimum that classifies as well, and before the first step every residual is at full size.
Clipping the squared hinge at 1 makes the smoothed hinge. Both are calibrated for classification.

**More than two classes.** Logistic regression has the softmax, r_j = p_j - [y = j]; the support vector machine the mean
over all other classes of the smoothed hinge of t_y - t_j (Weston and Watkins 1999). The usual clip is the norm of r
before the first step, sqrt(1 - 1/k) and sqrt(k/(k - 1)), for the reason above.
"""

# ruff: noqa: N803 -- scikit-learn calls a table of features X

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from dither.core.checks import checked_list, checked_real
from dither.core.decoding import decoded
from dither.errors import DomainError, ParameterError, RowError
from dither.learn.encoding import Encoder
from dither.learn.linear.base import LinearModel, Progress
from dither.learn.linear.schedule import PACE, Numbers

_TINY = 1e-6


class Classifier(ClassifierMixin, LinearModel):
    """Two classes, of which the second is the positive one; or more, each with a score of its own."""

    classes_: NDArray[Any]

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        classes: Sequence[Any] | None = None,
        mechanism: Any = "auto",
        clip: float | None = None,
        steps: int | None = None,
        batch: int | None = None,
        encoder: Encoder | None = None,
        invalid: str = "error",
        seed: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(
            epsilon,
            delta,
            mechanism=mechanism,
            clip=clip,
            steps=steps,
            batch=batch,
            encoder=encoder,
            invalid=invalid,
            seed=seed,
            progress=progress,
        )
        self.classes = classes

    def _declare(self, classes: Sequence[Any] | None = None, **public: Any) -> None:
        super()._declare(**public)
        known = self.classes if classes is None else classes
        found = np.asarray((0, 1) if known is None else known)
        if found.ndim != 1 or len(set(found.tolist())) != len(found) or len(found) < 2:
            raise ParameterError("classes must be two labels or more, each once, as in classes=(0, 1)")
        self.classes_ = found

    @property
    def _scores(self) -> int:
        return len(self.classes_) if len(self.classes_) > 2 else 1

    def _public(self, labels: Any) -> dict[str, Any]:
        if self.classes is not None:
            return {"classes": self.classes}
        check_classification_targets(labels)
        kind = type_of_target(labels, input_name="y")
        if kind not in ("binary", "multiclass"):
            raise ParameterError(f"a record has one of several classes; the type of this target is {kind}")
        classes = np.unique(labels)
        if len(classes) < 2:
            raise ParameterError("the labels have one class only: there is nothing to tell apart")
        return {"classes": classes}

    def _targets(self, y: Any, invalid: str) -> Numbers:
        labels = np.atleast_1d(np.asarray(y))
        if self._scores > 1:
            return self._places(labels, invalid)
        high, low = (np.asarray(labels == each, dtype=bool) for each in (self.classes_[1], self.classes_[0]))
        unknown = ~(high | low) if high.shape == labels.shape == low.shape else np.ones(labels.shape, dtype=bool)
        if labels.ndim != 1:
            raise DomainError("labels must be one-dimensional: one for each record")
        if unknown.any() and invalid == "error":
            raise RowError(int(unknown.argmax()), "the label is not one of the two classes")
        return np.where(unknown, np.nan, np.where(high, 1.0, 0.0))

    def _places(self, labels: NDArray[Any], invalid: str) -> Numbers:
        """The number of each label's class, from 0, where there are more than two."""
        if labels.ndim != 1:
            raise DomainError("labels must be one-dimensional: one for each record")
        places = np.full(len(labels), np.nan)
        for place, each in enumerate(self.classes_):
            alike = np.asarray(labels == each, dtype=bool)
            if alike.shape == labels.shape:
                places[alike] = place
        unknown = np.isnan(places)
        if unknown.any() and invalid == "error":
            raise RowError(int(unknown.argmax()), f"the label is not one of the {self._scores} classes")
        return places

    def decision_function(self, X: Any) -> Numbers:
        """The score of each record, positive for the second class; of more than two classes a score for each."""
        check_is_fitted(self, "coef_")
        if self._scores > 1:
            return self._features(X) @ self.coef_.T + self.intercept_
        return self._features(X) @ np.ravel(self.coef_) + float(np.ravel(self.intercept_)[0])

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each record."""
        check_is_fitted(self, "coef_")
        if self._scores > 1:
            return self.classes_[self.decision_function(X).argmax(axis=1)]
        return self.classes_[(self.decision_function(X) > 0).astype(np.intp)]

    def _publish(self, coefficients: Numbers) -> None:
        table = np.atleast_2d(coefficients)
        self.coef_, self.intercept_ = table[:, :-1], table[:, -1]

    def _stored(self) -> list[Any]:
        return self.classes_.tolist()

    def _restore(self, labels: list[Any]) -> None:
        self._declare(classes=labels)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


class LogisticRegression(Classifier):
    """Logistic regression from one randomized gradient a user.

    `epsilon` and `delta` are the budget of a user's only report. `classes` are the labels, of two the second is
    the positive one; if left out, `fit` takes them from the labels, as if these were public. `mechanism` is a name of
    the registry (as `VectorReporter` takes it), a mechanism that is made already, or `"auto"`. Features are in [-1, 1]
    and moved there if not; with an `encoder` records are tables in their own units. `invalid` says what becomes of
    labels and values outside of their domains; `seed` makes a simulation. `progress` wraps the steps, as
    `dither.display.progress.steps` does.

    >>> import numpy as np
    >>> X = np.tile([[1.0, -1.0], [-1.0, 1.0]], (2000, 1))
    >>> y = np.tile([1, 0], 2000)
    >>> model = LogisticRegression(epsilon=2.0, seed=1).fit(X, y)
    >>> model.score(X, y)
    1.0
    >>> print(LogisticRegression(epsilon=2.0).fit(X, y).guarantee)
    epsilon 2 (exact)
    """

    pace = PACE
    usual_clip = 0.5

    def _residual(self, score: Numbers, target: Numbers) -> Numbers:
        return _sigmoid(score) - target

    def _intercept(self, mean: float, clip: float) -> float:
        """Where the clipped residuals of both classes balance, for the share of the second class."""
        size = min(clip, 0.5)  # of a residual at score 0
        share = float(np.clip(0.5 - mean / (2 * size), 0.05, 0.95))
        rare = min(share, 1 - share)
        chance = min(rare, clip * rare / (1 - rare))  # the rare class's residual 1 - chance is clipped, or it is not
        score = math.log(chance / (1 - chance))
        return score if share < 0.5 else -score

    def _clip(self) -> float:
        whole = self.clip is None and self._scores > 1
        return math.sqrt(1 - 1 / self._scores) if whole else super()._clip()

    def _residuals(self, scores: Numbers, target: Numbers) -> Numbers:
        return _softmax(scores) - _indicators(target, scores.shape[1])

    def _intercepts(self, means: Numbers) -> Numbers:
        k = len(means)
        shares = np.clip(1 / k - means * math.sqrt(1 - 1 / k) / min(self._clip(), math.sqrt(1 - 1 / k)), 0.1 / k, 1.0)
        return np.log(shares) - np.log(shares).mean()

    def predict_proba(self, X: Any) -> Numbers:
        """For each record the probabilities of its classes, as far as a clipped loss tells them."""
        check_is_fitted(self, "coef_")
        if self._scores > 1:
            return _softmax(self.decision_function(X))
        chance = _sigmoid(self.decision_function(X))
        return np.column_stack([1 - chance, chance])

    def predict_log_proba(self, X: Any) -> Numbers:
        """Their logarithms."""
        return np.log(np.maximum(self.predict_proba(X), np.finfo(np.float64).tiny))


class LinearSVC(Classifier):
    """A linear support vector machine, with the smoothed hinge loss: the squared hinge, clipped to grow linearly.

    Parameters as in `LogisticRegression`.

    >>> import numpy as np
    >>> X, y = np.tile([[1.0, -1.0], [-1.0, 1.0]], (2000, 1)), np.tile(["yes", "no"], 2000)
    >>> LinearSVC(epsilon=2.0, seed=1).fit(X, y).predict([[0.9, -0.8]]).tolist()
    ['yes']
    """

    pace = 0.15
    usual_clip = 1.0

    def _residual(self, score: Numbers, target: Numbers) -> Numbers:
        sign = 2 * target - 1
        return -sign * np.maximum(0.0, 1 - sign * score)

    def _intercept(self, mean: float, clip: float) -> float:
        return float(np.clip(-mean / min(clip, 1.0), -0.9, 0.9))

    def _clip(self) -> float:
        whole = self.clip is None and self._scores > 1
        return math.sqrt(self._scores / (self._scores - 1)) if whole else super()._clip()

    def _residuals(self, scores: Numbers, target: Numbers) -> Numbers:
        k, own = scores.shape[1], _indicators(target, scores.shape[1])
        margins = 1 + scores - (own * scores).sum(axis=1, keepdims=True)
        slopes = (1 - own) * np.clip(margins, 0.0, 1.0) / (k - 1)
        return slopes - own * slopes.sum(axis=1, keepdims=True)

    def _intercepts(self, means: Numbers) -> Numbers:
        """How much larger a share is than that of equal classes: so large a margin is right for the hinge's slope."""
        k = len(means)
        whole = math.sqrt(k / (k - 1))
        return np.clip(-means * (k - 1) / k * whole / min(self._clip(), whole), -0.9, 0.9)


class LinearRegression(RegressorMixin, LinearModel):
    """Linear regression from one randomized gradient a user; large residuals are clipped, as in Huber's loss.

    `bounds` are the public ends of the target; what lies outside is refused, or with `invalid="substitute"` moved to
    the nearer end. Other parameters as in `LogisticRegression`; `clip` is in halves of the width of the bounds.

    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 5000)[:, None]
    >>> model = LinearRegression(epsilon=4.0, bounds=(0, 10), seed=1).fit(X, 5 + 4 * X[:, 0])
    >>> abs(float(model.predict([[0.5]])[0]) - 7.0) < 0.5
    True
    """

    pace = 0.1
    usual_clip = 0.5

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        bounds: tuple[float, float] = (-1.0, 1.0),
        mechanism: Any = "auto",
        clip: float | None = None,
        steps: int | None = None,
        batch: int | None = None,
        encoder: Encoder | None = None,
        invalid: str = "error",
        seed: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(
            epsilon,
            delta,
            mechanism=mechanism,
            clip=clip,
            steps=steps,
            batch=batch,
            encoder=encoder,
            invalid=invalid,
            seed=seed,
            progress=progress,
        )
        self.bounds = bounds

    def _ends(self) -> tuple[float, float]:
        """Centre and half-width of the target."""
        ends = checked_list("bounds are two numbers, low below high", self.bounds, 2)
        low, high = (checked_real("a bound", end) for end in ends)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ParameterError("bounds are two finite numbers, low below high")
        return (low + high) / 2, (high - low) / 2

    def _declare(self, **public: Any) -> None:
        super()._declare(**public)
        self._ends()

    def _residual(self, score: Numbers, target: Numbers) -> Numbers:
        return score - target

    def _intercept(self, mean: float, clip: float) -> float:
        return float(np.clip(-mean, -1.0, 1.0))

    def _targets(self, y: Any, invalid: str) -> Numbers:
        from dither.core.columns import floats_of

        centre, half = self._ends()
        numbers = floats_of(np.asarray(y))
        outside = ~(np.abs(numbers - centre) <= half * (1 + _TINY))
        if outside.any() and invalid == "error":
            raise RowError(int(outside.argmax()), "the label is not a number within the bounds")
        return np.clip((numbers - centre) / half, -1.0, 1.0)

    def _checked(self, X: Any, y: Any) -> tuple[Numbers, Any]:
        if self.encoder is not None:
            return super()._checked(X, y)
        features, labels = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        return np.asarray(features), labels

    def _publish(self, coefficients: Numbers) -> None:
        centre, half = self._ends()
        self.coef_, self.intercept_ = half * coefficients[:-1], centre + half * float(coefficients[-1])

    def predict(self, X: Any) -> Numbers:
        """The target of each record, in its own units."""
        return self._features(X) @ self.coef_ + self.intercept_

    def _stored(self) -> list[Any]:
        return [float(end) for end in self.bounds]

    def _restore(self, labels: list[Any]) -> None:
        self.bounds = decoded(labels, tuple[float, float], "this model is damaged", name="labels")
        self._declare()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


def _sigmoid(score: Numbers) -> Numbers:
    """1 / (1 + e^-score), without overflow."""
    small = np.exp(-np.abs(score))
    return np.where(score >= 0, 1.0, small) / (1 + small)


def _softmax(scores: Numbers) -> Numbers:
    """e^t_j over their sum, without overflow."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _indicators(target: Numbers, k: int) -> Numbers:
    """A row for each target, with a one in its place; NaN everywhere for a target that is NaN."""
    rows = (target[:, None] == np.arange(k)).astype(np.float64)
    rows[np.isnan(target)] = np.nan
    return rows
