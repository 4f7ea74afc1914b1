"""Linear models under local differential privacy: one user, one step, one report (002 section 6.2).

Stochastic gradient descent in which every user takes part in at most one step. The server publishes the coefficients;
the users of a batch each compute the gradient at these coefficients, send one randomized report of it, and are done;
the server reads the mean gradient off the tally and moves on. The server never sees a record, and the guarantee of the
whole training is that of one report (parallel composition: each user reports once).

    residual r = dloss/dt at t = w.x + b,  clipped to [-c, c];      gradient = r (x, 1);      w <- w - eta Q g

Features are in [-1, 1], so a residual within [-c, c] bounds every entry by c, and the whole gradient by c sqrt(d + 1):
an `Envelope` with norm "linf" loses nothing, whatever the mechanism.

**Clipping is a choice of loss.** With c = 1/2 the logistic loss becomes linear for records on the wrong side, and a
quarter as noisy: for an optimum that classifies as well, and before the first step every residual is at full size.
Clipping the squared hinge at 1 makes the smoothed hinge. Both are calibrated for classification.

**Defaults follow from (n, d, epsilon) and the domains, never from data.** Let nu be the standard deviation of one
coordinate of the mean gradient of all n users, c sqrt(V / n), where V is the exact variance of the mechanism.

- *The total length of all steps* is S = `pace` / nu (at most `FARTHEST`): after it the noise in a coefficient has a
  fixed size. The noise of T small steps with n/T users each is that of one long step: S alone decides, so T is max(20,
  S), with eta = S/T <= 1.
- *Q* is the inverse of (M + RIDGE), with M the second moments of a record drawn uniformly from the public domains
  (`Encoder.second_moments`). It takes out the direction in which all indicators move together.
- *The first batch*, 3% of the users, reports on the intercept alone: one coordinate is cheap, and with the intercept in
  place the gradient is the covariance of features and label instead of their means.
- *Averaging*: the coefficients are the mean of the iterates of the second half.

`pace` and RIDGE (0.4 and 0.5) were chosen once, on a validation split of the Adult training data, for all mechanisms
and budgets alike. `mechanism="auto"` takes the mechanism of the registry with the least error (`Envelope.best`).

What goes wrong: noise grows with d, so with few users a model of few public attributes is better than one of many
(docs/local-models.md). Classes are two; a model for each of k classes would need k reports.
"""

# ruff: noqa: N803 -- scikit-learn calls a table of features X

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_real
from dither.core.errors import DomainError, MissingExtraError, ParameterError, RowError
from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.core.reports import Reports
from dither.learn.encoding import Encoder
from dither.learn.envelope import Envelope, ranked
from dither.randomness import Stream
from dither.schema import RULES, Schema

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise MissingExtraError("this needs sklearn: pip install 'dither[learn]'") from None

RIDGE = 0.5
FARTHEST = 100.0
FEWEST_STEPS = 20
FIRST_SHARE = 0.03
_FORMAT = "dither model 1"
_TINY = 1e-6

Numbers = NDArray[np.float64]
Progress = Callable[[Iterable[int]], Iterable[int]]


@dataclass(frozen=True, eq=False)
class Course:
    """All that is public about a training before it begins: who reports how, and how the server moves."""

    first: Envelope | None
    main: Envelope
    steps: int
    rate: float
    precondition: Numbers
    users: int

    def envelope(self, step: int) -> Envelope:
        """How the reports of this step are made; step 0 is about the intercept alone."""
        return self.first if step == 0 and self.first is not None else self.main

    @property
    def turns(self) -> int:
        """How many batches report."""
        return self.steps + (self.first is not None)

    def sizes(self) -> list[int]:
        """How many users each batch has."""
        if self.first is None:
            return _shares(self.users, self.steps)
        first = max(1, min(round(FIRST_SHARE * self.users), self.users - self.steps))
        return [first, *_shares(self.users - first, self.steps)]

    @property
    def guarantee(self) -> Guarantee:
        """That of one report, of whichever kind: nobody sends two."""
        kinds = [self.main.guarantee] + ([self.first.guarantee] if self.first else [])
        epsilon, delta = max(kind.epsilon for kind in kinds), max(kind.delta for kind in kinds)
        exact = all(kind.established == "exact" for kind in kinds)
        return Guarantee(epsilon, delta, "exact" if exact else "bound")


class _Local(BaseEstimator):
    """What the three models share: the protocol. A model adds its residual and the meaning of its labels."""

    pace: ClassVar[float]
    usual_clip: ClassVar[float]
    promised_: Guarantee  # of a model from a file
    coef_: Numbers
    intercept_: Any

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        mechanism: Any = "auto",
        clip: float | None = None,
        steps: int | None = None,
        batch: int | None = None,
        encoder: Encoder | None = None,
        invalid: str = "error",
        seed: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.clip = clip
        self.steps = steps
        self.batch = batch
        self.encoder = encoder
        self.invalid = invalid
        self.seed = seed
        self.progress = progress

    # What a model adds ---------------------------------------------------------------------------------------------

    def _residual(self, score: Numbers, target: Numbers) -> Numbers:
        """The derivative of the loss by the score."""
        raise NotImplementedError

    def _intercept(self, mean: float, clip: float) -> float:
        """The best intercept alone, if the clipped residuals at score 0 have this mean."""
        raise NotImplementedError

    def _targets(self, y: Any, invalid: str) -> Numbers:
        """Labels as the residual takes them; NaN for a label outside of the domain if that is not refused."""
        raise NotImplementedError

    # The protocol ----------------------------------------------------------------------------------------------------

    def start(self, d: int | Encoder | None = None, *, users: int, **public: Any) -> Self:
        """Publish what is known before anybody reports: dimensions or encoder, and the number of users.

        Classifiers take `classes` too. After it `randomize` and `partial_fit` take turns.
        """
        if isinstance(d, Encoder):
            self.encoder = d
        known = self.encoder.d if self.encoder is not None else d
        if isinstance(known, Encoder) or known is None:
            raise ParameterError("start needs the number of features, or an Encoder")
        self._declare(**public)
        dimensions = checked_count("d", known, 1)
        if self.invalid not in RULES:
            raise ParameterError(f"invalid must be one of {', '.join(RULES)}")
        self.course_ = self._course(dimensions, checked_count("users", users, 1))
        self.n_features_in_ = dimensions
        self.step_ = 0
        self.simulated_ = False
        self.iterate_ = np.zeros(dimensions + 1)
        self._average(1)
        return self

    def randomize(self, X: Any, y: Any, *, seed: int | None = None) -> Reports:
        """On the device: one report for each record, at the coefficients that are public now.

        A label outside of its domain is refused, or with `invalid="substitute"` drawn as a gradient of zero, as is a
        record whose gradient is not finite. Nobody can tell these reports from others.
        """
        self._refuse_unstarted()
        rows, target = self._rows(X), self._targets(y, self.invalid)
        if len(rows) != len(target):
            raise DomainError("there must be exactly one label for each record")
        return self.course_.envelope(self.step_).randomize(self._gradients(rows, target), seed=seed)

    def partial_fit(self, reports: Reports) -> Self:
        """On the server: one step from one batch of reports. There is no data here, and none is asked for."""
        self._refuse_unstarted()
        course, envelope = self.course_, self.course_.envelope(self.step_)
        if not isinstance(reports, np.ndarray) or reports.dtype != envelope.mechanism.dtype:
            raise ParameterError("partial_fit takes reports, never data: partial_fit(model.randomize(X, y))")
        tally = envelope.tally(reports)
        gradient = envelope.estimate(tally).value
        self.simulated_ = self.simulated_ or tally.simulated
        if envelope is not course.main:
            clip = self._clip()
            self.iterate_ = np.append(np.zeros(self.n_features_in_), self._intercept(float(gradient[0]), clip))
        else:
            self.iterate_ = self.iterate_ - course.rate * (course.precondition @ gradient)
        self.step_ += 1
        self._average(self.step_ - (course.turns - course.steps) - course.steps // 2)
        return self

    def fit(self, X: Any, y: Any) -> Self:
        """Simulate devices and server: public random batches, one report a user, one step a batch."""
        features, labels = self._checked(X, y)
        self.start(features.shape[1], users=len(features), **self._public(labels))
        order = _order(len(features), self.seed)
        ends = np.cumsum([0, *self.course_.sizes()])
        for turn in (self.progress or iter)(range(self.course_.turns)):
            here = order[ends[turn] : ends[turn + 1]]
            # The words of a simulated report depend on seed and row: each batch needs a seed of its own.
            seed = None if self.seed is None else int(self.seed) * 1_000_003 + turn
            target = self._targets(labels[here], self.invalid)
            envelope = self.course_.envelope(self.step_)
            self.partial_fit(envelope.randomize(self._gradients(features[here], target), seed=seed))
        return self

    @property
    def guarantee(self) -> Guarantee:
        """Of the whole training: that of one report."""
        if hasattr(self, "promised_"):
            return self.promised_
        self._refuse_unstarted()
        return NO_GUARANTEE if self.simulated_ else self.course_.guarantee

    @property
    def envelope(self) -> Envelope:
        """How gradients travel."""
        self._refuse_unstarted()
        return self.course_.main

    # Its parts -------------------------------------------------------------------------------------------------------

    def _clip(self) -> float:
        clip = self.usual_clip if self.clip is None else checked_real("clip", self.clip)
        if not (math.isfinite(clip) and clip > 0):
            raise ParameterError("clip must be a finite number above 0")
        return clip

    def _course(self, d: int, users: int) -> Course:
        clip = self._clip()
        main = self._enveloped(d + 1, clip)
        noise = math.sqrt(main.noise() / (d + 1) / users)
        length = min(self.pace / noise, FARTHEST * self.pace / LogisticRegression.pace)
        steps = self._steps(max(FEWEST_STEPS, math.ceil(length)), users)
        first = None if users < 2 * steps or self._made() else self._first(d + 1, clip)
        moments = self.encoder.second_moments() if self.encoder is not None else np.diag([1 / 3] * d + [1.0])
        precondition = np.linalg.inv(moments + RIDGE * np.eye(d + 1)).astype(np.float64)
        return Course(first, main, steps, min(length / steps, 1.0), precondition, users)

    def _steps(self, usual: int, users: int) -> int:
        """How many batches the users make."""
        if self.batch is not None:
            batch = checked_count("batch", self.batch, 1)
            if batch > users:
                raise ParameterError(f"a batch of {batch:,} is larger than the population of {users:,} users")
            usual = users // batch
        if self.steps is None:
            return max(1, min(usual, users))
        steps = checked_count("steps", self.steps, 1)
        needed = steps * (1 if self.batch is None else self.batch)
        if needed > users:
            raise ParameterError(
                f"{steps:,} steps need {needed:,} users, since each takes part once, and there are {users:,}"
            )
        return steps

    def _made(self) -> bool:
        return not isinstance(self.mechanism, str)

    def _enveloped(self, d: int, clip: float) -> Envelope:
        if self._made():
            return Envelope(self.mechanism, d=d, clip=clip, norm="linf")
        return Envelope(self._name(d), d=d, epsilon=self.epsilon, delta=self.delta, clip=clip, norm="linf")

    def _name(self, d: int) -> str:
        if self.mechanism != "auto":
            return self.mechanism
        return ranked(d, self.epsilon, self.delta, clip=1.0, norm="linf")[0][0]

    def _first(self, d: int, clip: float) -> Envelope:
        """One coordinate by the same mechanism; by a sign where that takes several coordinates."""
        budget: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta}
        try:
            return Envelope(self._name(d), d=1, clip=clip, norm="linf", **budget)
        except ParameterError:
            return Envelope("Hypercube(parts=1)", d=1, clip=clip, norm="linf", **budget)

    def _gradients(self, rows: Numbers, target: Numbers) -> Numbers:
        """For each record the clipped gradient of this step; zero where it is not finite."""
        inside = np.clip(rows, -1.0, 1.0)  # NaN stays
        with np.errstate(all="ignore"):  # a warning would be a fact about a value
            score = inside @ self.iterate_[:-1] + self.iterate_[-1]
            residual = np.clip(self._residual(score, target), -self._clip(), self._clip())
            if self.course_.envelope(self.step_) is not self.course_.main:
                return residual[:, None]
            return residual[:, None] * np.column_stack([inside, np.ones(len(inside))])

    def _average(self, late: int) -> None:
        """Publish the mean of the iterates of the second half, of which this is number `late`; before, the last one."""
        self.average_ = self.iterate_ if late <= 1 else self.average_ + (self.iterate_ - self.average_) / late
        self._publish(self.average_)

    def _publish(self, coefficients: Numbers) -> None:
        self.coef_, self.intercept_ = coefficients[:-1], float(coefficients[-1])

    def _rows(self, X: Any) -> Numbers:
        """Records on a device: what is no number is NaN, and counts as nothing."""
        if self.encoder is not None:
            return self._transformed(X)
        try:
            rows = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            rows = None  # the message of the conversion may quote a value: leave its handler before raising
        if rows is None or rows.ndim != 2 or rows.shape[1] != self.n_features_in_:
            raise DomainError(f"records must be a table of numbers with {self.n_features_in_} columns")
        return rows

    def _checked(self, X: Any, y: Any) -> tuple[Numbers, Any]:
        """Data for a trial: refused at the door."""
        if self.encoder is None:
            features, labels = validate_data(self, X, y, dtype=np.float64)
            return np.asarray(features), labels
        features = self._transformed(X)
        labels = np.asarray(y)
        if labels.shape != (len(features),):
            raise DomainError("there must be exactly one label for each record")
        return features, labels

    def _transformed(self, X: Any) -> Numbers:
        """A table of records as rows; an array of numbers with a column for each entry is encoded already."""
        assert self.encoder is not None
        if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f" and X.shape[1] == self.encoder.d:
            return X.astype(np.float64, copy=False)
        return self.encoder.transform(X, self.invalid)

    def _features(self, X: Any) -> Numbers:
        """Records to predict from."""
        check_is_fitted(self, "coef_")
        if self.encoder is not None:
            return self._transformed(X)
        return np.clip(np.asarray(validate_data(self, X, dtype=np.float64, reset=False)), -1.0, 1.0)

    def _refuse_unstarted(self) -> None:
        if not hasattr(self, "course_"):
            raise ParameterError("nothing is public yet: call start(d, users=...) or fit(X, y) first")

    def _declare(self, **public: Any) -> None:
        if public:
            raise ParameterError(f"start takes no {', '.join(public)}")

    def _public(self, labels: Any) -> dict[str, Any]:
        return {}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.seed is None
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    # Files -----------------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The model without the training: coefficients, encoding and guarantee, ready for JSON."""
        self._refuse_unstarted()
        promised = self.guarantee
        return {
            "format": _FORMAT,
            "model": type(self).__name__,
            "coefficients": [float(each) for each in np.ravel(self.coef_)],
            "intercept": float(np.ravel(self.intercept_)[0]),
            "labels": self._stored(),
            "schema": None if self.encoder is None else self.encoder.schema.to_dict(),
            "mechanism": repr(self.course_.main.mechanism),
            "users": self.course_.users,
            "guarantee": {
                "epsilon": None if promised.simulated else promised.epsilon,
                "delta": promised.delta,
                "established": promised.established,
            },
        }

    def _stored(self) -> list[Any]:
        raise NotImplementedError


class _Classifier(ClassifierMixin, _Local):
    """Two classes, of which the second is the positive one."""

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
        if found.ndim != 1 or len(set(found.tolist())) != 2 or len(found) != 2:
            raise ParameterError(
                "Only binary classification is supported. Give two classes; for more, train a model for each against "
                "the rest, with users of its own"
            )
        self.classes_ = found

    def _public(self, labels: Any) -> dict[str, Any]:
        if self.classes is not None:
            return {"classes": self.classes}
        check_classification_targets(labels)
        kind = type_of_target(labels, input_name="y")
        if kind != "binary":
            raise ParameterError(f"Only binary classification is supported. The type of the target is {kind}.")
        classes = np.unique(labels)
        if len(classes) < 2:
            raise ParameterError("the labels have one class only: there is nothing to tell apart")
        return {"classes": classes}

    def _targets(self, y: Any, invalid: str) -> Numbers:
        labels = np.atleast_1d(np.asarray(y))
        high, low = (np.asarray(labels == each, dtype=bool) for each in (self.classes_[1], self.classes_[0]))
        unknown = ~(high | low) if high.shape == labels.shape == low.shape else np.ones(labels.shape, dtype=bool)
        if labels.ndim != 1:
            raise DomainError("labels must be one-dimensional: one for each record")
        if unknown.any() and invalid == "error":
            raise RowError(int(unknown.argmax()), "the label is not one of the two classes")
        return np.where(unknown, np.nan, np.where(high, 1.0, 0.0))

    def decision_function(self, X: Any) -> Numbers:
        """The score of each record; positive for the second class."""
        return self._features(X) @ np.ravel(self.coef_) + float(np.ravel(self.intercept_)[0])

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each record."""
        check_is_fitted(self, "coef_")
        return self.classes_[(self.decision_function(X) > 0).astype(np.intp)]

    def _publish(self, coefficients: Numbers) -> None:
        self.coef_, self.intercept_ = coefficients[None, :-1], coefficients[-1:]

    def _stored(self) -> list[Any]:
        return self.classes_.tolist()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags


class LogisticRegression(_Classifier):
    """Logistic regression from one randomized gradient a user.

    `epsilon` and `delta` are the budget of a user's only report. `classes` are the two labels, of which the second is
    the positive one; if left out, `fit` takes them from the labels, as if these were public. `mechanism` is a name of
    the registry (as `Envelope` takes it), a mechanism that is made already, or `"auto"`. Features are in [-1, 1] and
    moved there if not; with an `encoder` records are tables in their own units. `invalid` says what becomes of labels
    and values outside of their domains; `seed` makes a simulation. `progress` wraps the steps, as
    `dither.show.progress.steps` does.

    >>> import numpy as np
    >>> X = np.tile([[1.0, -1.0], [-1.0, 1.0]], (2000, 1))
    >>> y = np.tile([1, 0], 2000)
    >>> model = LogisticRegression(epsilon=2.0, seed=1).fit(X, y)
    >>> model.score(X, y)
    1.0
    >>> print(LogisticRegression(epsilon=2.0).fit(X, y).guarantee)
    epsilon 2 (exact)
    """

    pace = 0.4
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

    def predict_proba(self, X: Any) -> Numbers:
        """For each record the probabilities of the two classes, as far as a clipped loss tells them."""
        chance = _sigmoid(self.decision_function(X))
        return np.column_stack([1 - chance, chance])

    def predict_log_proba(self, X: Any) -> Numbers:
        """Their logarithms."""
        return np.log(np.maximum(self.predict_proba(X), np.finfo(np.float64).tiny))


class LinearSVC(_Classifier):
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


class LinearRegression(RegressorMixin, _Local):
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
        if not isinstance(self.bounds, Sequence) or len(self.bounds) != 2:
            raise ParameterError("bounds are two numbers, low below high")
        low, high = (checked_real("a bound", end) for end in self.bounds)
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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


MODELS: dict[str, type[_Local]] = {each.__name__: each for each in (LinearRegression, LogisticRegression, LinearSVC)}


def load_model(source: str | Path | Mapping[str, Any]) -> Any:
    """A model from `to_dict`, or from the file that `dither train` wrote: it predicts, and says what was promised.

    >>> stored = LogisticRegression(epsilon=1.0).start(2, users=100).to_dict()
    >>> load_model(stored).predict([[0.5, 0.5]]).tolist()
    [0]
    """
    stored = source if isinstance(source, Mapping) else _read(Path(source))
    kind = MODELS.get(str(stored.get("model"))) if stored.get("format") == _FORMAT else None
    if kind is None:
        raise ParameterError("this is not a model that dither wrote")
    try:
        model: Any = kind()
        if kind is LinearRegression:
            model.bounds = tuple(stored["labels"])
        if stored["schema"] is not None:
            model.encoder = Encoder(Schema.from_dict(stored["schema"]))
        if isinstance(model, _Classifier):
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
        raise ParameterError(f"the model file {path} cannot be read; dither train ... -o {path} writes one")
    return found


def _sigmoid(score: Numbers) -> Numbers:
    """1 / (1 + e^-score), without overflow."""
    small = np.exp(-np.abs(score))
    return np.where(score >= 0, 1.0, small) / (1 + small)


def _shares(users: int, batches: int) -> list[int]:
    """Users over batches, as evenly as can be; larger ones first."""
    least, more = divmod(users, batches)
    return [least + (batch < more) for batch in range(batches)]


def _order(users: int, seed: int | None) -> NDArray[np.intp]:
    """A public random order of the users."""
    tape = Stream.secure() if seed is None else Stream.seeded(seed, "batches")
    return tape.order(users)
