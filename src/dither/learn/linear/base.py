"""The protocol that all linear models share: the server publishes, a batch of users reports, the server moves.

    residual r = dloss/dt at t = w.x + b,  clipped to [-c, c];      gradient = r (x, 1);      w <- w - eta Q g

Features are in [-1, 1], so a residual within [-c, c] bounds every entry by c, and the whole gradient by c sqrt(d + 1):
a `VectorReporter` with norm "linf" loses nothing, whatever the mechanism. eta and Q are those of the `Schedule`.

**More than two classes** have a score each, t_j = w_j.x + b_j, and k residuals r_j = dloss/dt_j, whose norm is clipped
to c. The gradient r (x, 1)^T is one vector of k (d + 1) numbers and of norm c sqrt(d + 1): one report, with the whole
budget. On a ball its noise in a coordinate is c^2 (d + 1) g(epsilon) / n, with c^2 = 1 - 1/k for the logistic loss. A
model for each class against the rest, with n/k users each and a residual within 1/2, has k/4 in the place of c^2: as
much for two classes, and 2.8 times as much for ten. So all classes are learned at once.

`start`, then `randomize` (on a device) and `partial_fit` (on the server) in turns; `fit` simulates them all.
"""

# ruff: noqa: N803 -- scikit-learn calls a table of features X

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from dither.core.checks import checked_count, checked_real
from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.core.reports import Reports
from dither.errors import DomainError, ParameterError
from dither.learn.encoding import Encoder
from dither.learn.linear.schedule import Numbers, Schedule, Terms, public_order
from dither.learn.vector_reporter import VectorReporter
from dither.schema import RULES

FORMAT = "dither model 1"

Progress = Callable[[Iterable[int]], Iterable[int]]


class LinearModel(BaseEstimator, ABC):
    """What the three models share: the protocol. A model adds its residual and the meaning of its labels."""

    pace: ClassVar[float]
    usual_clip: ClassVar[float]
    promised_: Guarantee | None = None  # of a model from a file
    _started: bool = False
    schedule_: Schedule
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

    @abstractmethod
    def _residual(self, score: Numbers, target: Numbers) -> Numbers:
        """The derivative of the loss by the score."""

    @abstractmethod
    def _intercept(self, mean: float, clip: float) -> float:
        """The best intercept alone, if the clipped residuals at score 0 have this mean."""

    @abstractmethod
    def _targets(self, y: Any, invalid: str) -> Numbers:
        """Labels as the residual takes them; NaN for a label outside of the domain if that is not refused."""

    @property
    def _scores(self) -> int:
        """How many scores a record has: one for each class, if there are more than two."""
        return 1

    def _residuals(self, scores: Numbers, target: Numbers) -> Numbers:
        """The derivative of the loss by each score, where there are several; NaN for a target that is NaN."""
        raise NotImplementedError

    def _intercepts(self, means: Numbers) -> Numbers:
        """The intercepts to begin with, if the residuals at scores of 0 have these means."""
        raise NotImplementedError

    # The protocol ----------------------------------------------------------------------------------------------------

    def start(self, d: int | Encoder | None = None, *, users: int, **public: Any) -> Self:
        """Publish what is known before anybody reports: dimensions or encoder, and the number of users.

        Classifiers take `classes` too. After it `randomize` and `partial_fit` take turns.
        """
        if isinstance(d, Encoder):
            self.encoder, d = d, None
        features = d if self.encoder is None else self.encoder.d
        if features is None:
            raise ParameterError("start needs the number of features, or an Encoder")
        self._declare(**public)
        dimensions = checked_count("d", features, 1)
        if self.invalid not in RULES:
            raise ParameterError(f"invalid must be one of {', '.join(RULES)}")
        self.schedule_ = self._schedule(dimensions, checked_count("users", users, 1))
        self._started, self.promised_ = True, None  # what a file promised was for another training
        self.n_features_in_ = dimensions
        self.step_ = 0
        self.simulated_ = False
        self.iterate_ = np.zeros((self._scores, dimensions + 1) if self._scores > 1 else dimensions + 1)
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
        return self.schedule_.reporter(self.step_).randomize(self._gradients(rows, target), seed=seed)

    def partial_fit(self, reports: Reports) -> Self:
        """On the server: one step from one batch of reports. There is no data here, and none is asked for."""
        self._refuse_unstarted()
        schedule, reporter = self.schedule_, self.schedule_.reporter(self.step_)
        if not isinstance(reports, np.ndarray) or reports.dtype != reporter.mechanism.dtype:
            raise ParameterError("partial_fit takes reports, never data: partial_fit(model.randomize(X, y))")
        tally = reporter.tally(reports)
        estimate = reporter.estimate(tally)
        gradient = estimate.value
        self.simulated_ = self.simulated_ or tally.simulated
        if self._scores > 1 and reporter is not schedule.main:
            self.iterate_ = np.zeros_like(self.iterate_)
            # Towards equal classes, as far as it may be noise (James and Stein): a logarithm takes noise badly.
            noise, square = float((estimate.stderr**2).sum()), float((gradient**2).sum())
            self.iterate_[:, -1] = self._intercepts(gradient * (1 - min(1.0, noise / square) if square else 0.0))
        elif self._scores > 1:
            self.iterate_ = self.iterate_ - schedule.rate * gradient.reshape(self._scores, -1) @ schedule.precondition
        elif reporter is not schedule.main:
            clip = self._clip()
            self.iterate_ = np.append(np.zeros(self.n_features_in_), self._intercept(float(gradient[0]), clip))
        else:
            self.iterate_ = self.iterate_ - schedule.rate * (schedule.precondition @ gradient)
        self.step_ += 1
        self._average(self.step_ - (schedule.turns - schedule.steps) - schedule.steps // 2)
        return self

    def fit(self, X: Any, y: Any) -> Self:
        """Simulate devices and server: public random batches, one report a user, one step a batch."""
        features, labels = self._checked(X, y)
        self.start(features.shape[1], users=len(features), **self._public(labels))
        order = public_order(len(features), self.seed)
        ends = np.cumsum([0, *self.schedule_.sizes()])
        for turn in (self.progress or iter)(range(self.schedule_.turns)):
            here = order[ends[turn] : ends[turn + 1]]
            # The words of a simulated report depend on seed and row: each batch needs a seed of its own.
            seed = None if self.seed is None else int(self.seed) * 1_000_003 + turn
            target = self._targets(labels[here], self.invalid)
            reporter = self.schedule_.reporter(self.step_)
            self.partial_fit(reporter.randomize(self._gradients(features[here], target), seed=seed))
        return self

    @property
    def guarantee(self) -> Guarantee:
        """Of the whole training: that of one report."""
        if self.promised_ is not None:
            return self.promised_
        self._refuse_unstarted()
        return NO_GUARANTEE if self.simulated_ else self.schedule_.guarantee

    @property
    def reporter(self) -> VectorReporter:
        """How gradients travel."""
        self._refuse_unstarted()
        return self.schedule_.main

    # Its parts -------------------------------------------------------------------------------------------------------

    def _clip(self) -> float:
        clip = self.usual_clip if self.clip is None else checked_real("clip", self.clip)
        if not (math.isfinite(clip) and clip > 0):
            raise ParameterError("clip must be a finite number above 0")
        return clip

    def _schedule(self, d: int, users: int) -> Schedule:
        asked = (self.epsilon, self.delta, self.mechanism, self._clip(), self.pace)
        return Terms(*asked, self.steps, self.batch, self.encoder, self._scores).schedule(d, users)

    def _gradients(self, rows: Numbers, target: Numbers) -> Numbers:
        """For each record the clipped gradient of this step; zero where it is not finite."""
        inside = np.clip(rows, -1.0, 1.0)  # NaN stays
        if self._scores > 1:
            return self._gradients_of_scores(inside, target)
        with np.errstate(all="ignore"):  # a warning would be a fact about a value
            score = inside @ self.iterate_[:-1] + self.iterate_[-1]
            residual = np.clip(self._residual(score, target), -self._clip(), self._clip())
            if self.schedule_.reporter(self.step_) is not self.schedule_.main:
                return residual[:, None]
            return residual[:, None] * np.column_stack([inside, np.ones(len(inside))])

    def _gradients_of_scores(self, inside: Numbers, target: Numbers) -> Numbers:
        """The same where a record has several scores: in one row, one score after the other."""
        with np.errstate(all="ignore"):
            scores = inside @ self.iterate_[:, :-1].T + self.iterate_[:, -1]
            residuals = self._residuals(scores, target)
            norms = np.linalg.norm(residuals, axis=1, keepdims=True)
            residuals = residuals * np.minimum(1.0, self._clip() / np.maximum(norms, np.finfo(np.float64).tiny))
            if self.schedule_.reporter(self.step_) is not self.schedule_.main:
                return residuals
            features = np.column_stack([inside, np.ones(len(inside))])
            return (residuals[:, :, None] * features[:, None, :]).reshape(len(inside), -1)

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
        if not self._started:
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

    # Files -----------------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The model without the training: coefficients, encoding and guarantee, ready for JSON."""
        self._refuse_unstarted()
        return {
            "format": FORMAT,
            "model": type(self).__name__,
            "coefficients": [float(each) for each in np.ravel(self.coef_)],
            "intercept": np.ravel(self.intercept_).tolist()
            if self._scores > 1
            else float(np.ravel(self.intercept_)[0]),
            "labels": self._stored(),
            "schema": None if self.encoder is None else self.encoder.schema.to_dict(),
            "mechanism": repr(self.schedule_.main.mechanism),
            "users": self.schedule_.users,
            "guarantee": self.guarantee.to_dict(),
        }

    @abstractmethod
    def _stored(self) -> list[Any]:
        """The labels as JSON has them."""

    @abstractmethod
    def _restore(self, labels: list[Any]) -> None:
        """Declare what `_stored` has told."""
