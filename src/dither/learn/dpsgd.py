"""DP-SGD: a model of PyTorch that does not tell whether a record was among those it was trained on.

A trusted curator holds the records. In step t every record joins the batch by its own coin of probability batch / n;
each record's gradient is bounded to a length of C; their sum gets Gaussian noise; and the model makes a step:

    w_{t+1} = w_t - rate * v_t,    v_t = momentum * v_{t-1} + (sum of bounded g_i + N(0, (multiplier C)^2 I)) / batch

(Abadi et al. 2016, arXiv:1607.00133). *All* iterates together are (epsilon, delta)-differentially private for records
that are added or removed, so anything may be computed from them: momentum, their average, the best on public data.

**How dither does it.** The target (epsilon, delta) comes in, and the least noise that keeps it over all steps comes out
of `privacy.noise_multiplier`. The coins are exact: an integer below n that is below `batch`. Bounded gradients are
vectors of integers whose norm is checked in integers, their sum is exact, and the noise is an integer from an exact
table (`learn.clipping`, `learn.lattice_noise`): no float takes part in a probability. The noise comes from the
operating system's randomness through `core.randomness.Stream`. The number of records n is public, as it is in all
accounting with a sampling rate; the size that a batch happened to have is not, so sums are divided by the expected one.

**What goes wrong.**

- *Batches that are not drawn by coins.* Shuffled batches of fixed size need another proof, with more noise.
- *The gradient of the mean.* See `learn.gradients`: each record's own is needed, and batch normalisation is refused.
- *Floating point.* Which integers a record contributes is decided by floats, and the proof needs them to depend on
  that record alone. A matrix product rounds the last bits by the *shape* of the batch, so gradients are made in chunks
  of one shape, filled up with records of zeros (`learn.gradients`). That others' integers then do not change by a bit
  is measured in many cases and not proved: docs/dpsgd.md lists those where it fails, and what is not known.
- *Settings that were tuned on the same records* (rate, clip, batch, the model itself) have seen the data, and no
  account here knows about it. Tune on public data, or in simulations on made-up data.
- *The training loss is not private*, and neither is an accuracy on the training records: `history` shows a loss of the
  training records in simulations only. A validation set given to `fit` counts as public.
- *A second `fit`* is a second release. `guarantee` is that of all fits of the object together: epsilons and deltas add
  up, unless `disjoint=True` says that nobody was in an earlier one. Fits of other objects are not known here.

Dropout and other randomness inside a model is torch's. It does not touch the guarantee, which holds for any masks; for
the time of `fit`, torch is seeded from dither's stream, so that a simulation can be repeated.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from fractions import Fraction
from functools import reduce
from math import ceil, isfinite, sqrt
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from dither.core.checks import checked_count, checked_delta, checked_epsilon, checked_real
from dither.core.exact import float_above
from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.core.randomness import Stream
from dither.display.progress import progress as shown_progress
from dither.display.table import TextTable
from dither.errors import ParameterError
from dither.learn.clipping import BOUNDS, Flat, Perturbation, Recipe, exact_sum
from dither.learn.gradients import LOSSES, ROWS, Loss, checked_model, per_record
from dither.learn.labelled_records import AT_ONCE, LabelledRecords, outputs_of, tensor_of
from dither.privacy.accounting.composition import compose, parallel

Rate = float | Callable[[int], float]
_NUMBERS_AT_ONCE = 3 << 20  # of gradients: about what a cache holds
_MOST = 512  # records at once, unless asked otherwise
_POINTS = 20  # of the history
_SLACK = 1e-9


class DPSGD:
    """Train a model with (epsilon, delta)-differential privacy.

    `batch` is the expected number of records in a step; `epochs` or `steps` says how long. `rate` is the learning rate,
    a number or a function of the step. `clipping` is "flat" (to `clip`), "auto" (AUTO-S) or "normalised"; `perturb`
    replaces bound and noise by another recipe, such as one of `dither.learn.geodp`. `average` is the share of the
    steps, counted from the end, over which the weights are averaged. `loss` is "cross_entropy" (labels 0, 1, ...),
    "squared_error", or a function of outputs and labels that returns a loss for each record. `microbatch` is the number
    of records whose gradients are made at once, rounded up to a multiple of 32.

    `model` is not changed: `fit` trains a copy. With a seed, everything can be repeated, and nothing is guaranteed.

    >>> records = np.repeat([[1.0, 0.0], [0.0, 1.0]], 200, axis=0)
    >>> labels = np.repeat([0, 1], 200)
    >>> training = DPSGD(nn.Linear(2, 2), epsilon=1.0, delta=1e-5, batch=400, steps=5, rate=4.0, seed=1)
    >>> training.fit(records, labels).score(records, labels)
    1.0
    >>> print(training.guarantee)
    no guarantee (simulated from a seed)
    >>> round(training.promised.epsilon, 2)
    1.0
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        batch: int,
        epochs: float | None = None,
        steps: int | None = None,
        rate: Rate = 0.5,
        clip: float = 1.0,
        clipping: str = "flat",
        perturb: str | Recipe | Perturbation = "gaussian",
        loss: str | Loss = "cross_entropy",
        momentum: float = 0.0,
        average: float = 0.0,
        microbatch: int | None = None,
        seed: int | None = None,
    ) -> None:
        checked_model(model)
        self.epsilon, self.delta = _checked_epsilon(epsilon), _checked_delta(delta)
        self.batch = checked_count("batch", batch, 1)
        self.epochs, self.steps = _checked_length(epochs, steps)
        self.rate = rate if callable(rate) else _within("rate", rate, 0.0, float("inf"))
        self.recipe = _recipe(clipping, clip, perturb)
        self.loss = _loss(loss)
        self.momentum = _within("momentum", momentum, 0.0, 0.9999)
        self.average = _within("average", average, 0.0, 1.0)
        self.microbatch = None if microbatch is None else checked_count("microbatch", microbatch, 1)
        self.seed = seed
        self._stream()  # refuses a seed that is none
        self._model = copy.deepcopy(model)
        self._result: _Result | None = None
        self._spent: Guarantee | None = None
        self._fits = 0

    def fit(
        self,
        inputs: ArrayLike | Tensor,
        labels: ArrayLike | Tensor,
        *,
        validation: tuple[Any, Any] | None = None,
        disjoint: bool = False,
        progress: bool = True,
    ) -> "DPSGD":
        """Train on these records. `validation` is a pair of *public* records and labels that `history` may show.

        Every fit starts from the model that was given, and is remembered: `guarantee` covers all of them. `disjoint`
        says that nobody among these records was in an earlier fit, so that nothing adds up.
        """
        model = copy.deepcopy(self._model)
        records = LabelledRecords.of(model, self.loss, inputs, labels)
        public = None if validation is None else LabelledRecords.of(model, self.loss, *validation)
        if self.batch > len(records):
            raise ParameterError(f"batch must be at most the number of records, {len(records):,}")
        stream = self._stream()
        with _seeded_torch(stream), _bar(progress, self._steps(len(records))) as advance:
            training = _Training(self, model, records, public, stream, advance)
            self._spent = _together(self._spent, NO_GUARANTEE if stream.simulated else training.promised, disjoint)
            self._fits += 1  # from here on records are touched, so a fit that is broken off counts as well
            self._result = training.run()
        return self

    @property
    def fitted(self) -> "_Result":
        """What `fit` left."""
        if self._result is None:
            raise ParameterError("nothing is trained yet: call fit(inputs, labels) first")
        return self._result

    @property
    def model(self) -> nn.Module:
        """The trained model."""
        return self.fitted.model

    @property
    def promised(self) -> Guarantee:
        """What the last fit guarantees by itself when it is not simulated."""
        return self.fitted.promised

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed to every record, for the models of all fits and all that is shown of them.

        One fit from a seed, and there is no guarantee.
        """
        if self._spent is None:
            return self.fitted.promised  # which says that nothing is trained
        return self._spent

    @property
    def perturbation(self) -> Perturbation:
        """The bound and the noise that were used."""
        return self.fitted.perturbation

    @property
    def history(self) -> TextTable:
        """Learning rate, and loss and score on the validation set; in simulations the loss of the batch as well."""
        return self.fitted.history

    def outputs(self, inputs: ArrayLike | Tensor) -> NDArray[Any]:
        """What the trained model says: for classes, their scores."""
        return outputs_of(self.model, tensor_of(inputs, "inputs"))

    def predict(self, inputs: ArrayLike | Tensor) -> NDArray[Any]:
        """The class of every record, or with another loss than "cross_entropy" the model's output."""
        outputs = self.outputs(inputs)
        return outputs.argmax(axis=1) if self.loss is LOSSES["cross_entropy"] else outputs

    def score(self, inputs: ArrayLike | Tensor, labels: ArrayLike | Tensor) -> float:
        """The share of right classes; for a squared error, the explained share of the variance.

        On the training records this number is not private.
        """
        records = LabelledRecords.of(self.model, self.loss, inputs, labels)
        return records.measured(self.model)[1]

    def explain(self) -> str:
        """What is done, in words."""
        lines = [
            f"Target: epsilon {self.epsilon:g}, delta {self.delta:g}, for records that are added or removed.",
            f"Every record joins a step by its own coin; {self.batch:,} are expected in a step.",
        ]
        if self._result is None:
            return "\n".join([*lines, "Nothing is trained yet; the noise follows from the number of records."])
        done = self._result
        lines += [
            f"{done.steps:,} steps over {done.records:,} records, so each joins a step with probability "
            f"{self.batch / done.records:.4g}.",
            f"The gradient of each record {done.perturbation}.",
            f"{done.d:,} parameters; gradients by {done.way}.",
            f"Guarantee{_of_all(self._fits)}: {self.guarantee}.",
        ]
        if done.simulated:
            lines.append(f"Without the seed it would be: {self.promised}.")
        return "\n".join([*lines, "Not accounted: settings tuned on the same records, and fits of others on them."])

    def __repr__(self) -> str:
        length = f"epochs={self.epochs:g}" if self.steps is None else f"steps={self.steps}"
        state = "" if self._result is None else ", fitted"
        seed = "" if self.seed is None else ", simulated"
        return f"DPSGD(epsilon={self.epsilon:g}, delta={self.delta:g}, batch={self.batch}, {length}{seed}{state})"

    def _steps(self, records: int) -> int:
        if self.steps is not None:
            return self.steps
        assert self.epochs is not None
        return max(1, ceil(self.epochs * records / self.batch))

    def _stream(self) -> Stream:
        return Stream.secure() if self.seed is None else Stream.seeded(self.seed, "dpsgd")


class _Result(NamedTuple):
    """What is left of a training: nothing of the records, only what was released."""

    model: nn.Module
    perturbation: Perturbation
    promised: Guarantee
    simulated: bool
    history: TextTable
    steps: int
    records: int
    d: int
    way: str


class _Training:
    """One run of the algorithm."""

    def __init__(
        self,
        asked: DPSGD,
        model: nn.Module,
        records: LabelledRecords,
        public: LabelledRecords | None,
        stream: Stream,
        advance: Callable[[int], None],
    ) -> None:
        self.asked, self.model, self.records, self.public, self.advance = asked, model, records, public, advance
        model.train()
        self.gradients = per_record(model, asked.loss, *records.some(slice(0, 2)))
        self.steps, self.share = asked._steps(len(records)), float_above(Fraction(asked.batch, len(records)))
        self.perturbation = _calibrated(asked, self.gradients.d, self.share, self.steps)
        self.promised = self.perturbation.guarantee(self.share, self.steps, asked.delta)
        if self.promised.epsilon > asked.epsilon * (1 + _SLACK) or self.promised.delta > asked.delta * (1 + _SLACK):
            raise ParameterError("this perturbation does not keep epsilon and delta over so many steps: use more noise")
        self.coins, self.noise, self.simulated = stream.spawn("coins"), stream.spawn("noise"), stream.simulated
        self.at_once = chunk(asked.batch, self.gradients.d, asked.microbatch)
        self.lines: list[dict[str, float]] = []

    def run(self) -> _Result:
        """All steps."""
        first = next(iter(self.gradients.weights.values()))
        place = torch.cat([weight.detach().flatten() for weight in self.gradients.weights.values()]).double()
        speed, mean, averaged = torch.zeros_like(place), torch.zeros_like(place), 0
        for step in range(self.steps):
            chosen = self.sampled(step)
            total = self.total(chosen)
            direction = torch.from_numpy(self.perturbation.release(total, step, self.noise)).to(first.device)
            speed = self.asked.momentum * speed + direction
            rate = _rate_at(self.asked.rate, step)
            place = place - rate * speed
            if step >= self.steps - self.asked.average * self.steps:
                averaged += 1
                mean += (place - mean) / averaged
            self.note(step, rate, chosen, place, mean if averaged else place)
            self.advance(1)
        self.put(mean if averaged else place)
        self.model.eval()
        names = self.lines[0] if self.lines else {}
        history = TextTable({name: [line[name] for line in self.lines] for name in names})
        return _Result(
            self.model, self.perturbation, self.promised, self.simulated, history, self.steps, len(self.records),
            self.gradients.d, self.gradients.way,
        )  # fmt: skip

    def sampled(self, step: int) -> Tensor:
        """The records of a step: each by its own exact coin of probability batch / n."""
        n = len(self.records)
        if self.asked.batch == n:
            return torch.arange(n)
        coins = self.coins.below(n, n, first=step * n)
        return torch.from_numpy(np.flatnonzero(coins < np.uint64(self.asked.batch)))

    def total(self, chosen: Tensor) -> NDArray[np.int64]:
        """The exact sum of what the chosen records contribute."""
        return reduce(np.add, (exact_sum(rows, self.perturbation.radius) for rows in self.contributions(chosen)))

    def contributions(self, chosen: Tensor) -> Iterator[Tensor]:
        """What each of them contributes, a chunk at a time; nobody at all is a chunk as well.

        Up to the last step a chunk has its full size: who else is there must not change a bit of a row.
        """
        for some in chosen.split(self.at_once):
            gradients = self.gradients.padded(*self.records.some(some), self.at_once)
            yield self.perturbation.contributions(gradients)[: len(some)]

    def put(self, place: Tensor) -> None:
        """Make these the weights of the model."""
        with torch.no_grad():
            parts = place.split([weight.numel() for weight in self.gradients.weights.values()])
            for weight, part in zip(self.gradients.weights.values(), parts, strict=True):
                weight.copy_(part.view_as(weight))

    def note(self, step: int, rate: float, chosen: Tensor, place: Tensor, shown: Tensor) -> None:
        """A line of history, about twenty times; then the model is ready for the next step."""
        last = step == self.steps - 1
        if last or (step + 1) % max(1, self.steps // _POINTS) == 0:
            line = {"step": step + 1, "rate": rate}
            if self.simulated and len(chosen):
                line["training loss (not private)"] = self.batch_loss(chosen)
            elif self.simulated:
                line["training loss (not private)"] = float("nan")
            if self.public is not None:
                self.put(shown)
                line["validation loss"], line["validation score"] = self.public.measured(self.model)
                self.model.train()
            self.lines.append(line)
        self.put(place)

    def batch_loss(self, chosen: Tensor) -> float:
        """The mean loss of some records of the batch, before the step."""
        with torch.no_grad():
            inputs, labels = self.records.some(chosen[:AT_ONCE])
            return float(self.asked.loss(self.model(inputs), labels).double().mean())


def _calibrated(asked: DPSGD, d: int, share: float, steps: int) -> Perturbation:
    return asked.recipe(d, asked.epsilon, asked.delta, share, steps, asked.batch)


def chunk(batch: int, d: int, asked: int | None) -> int:
    """How many records pass at once: from what is public, and so that a batch of usual size leaves few places empty."""
    if asked is not None:
        return ROWS * ceil(asked / ROWS)
    most = min(_MOST, max(ROWS, _NUMBERS_AT_ONCE // d // ROWS * ROWS))
    room = batch + 2 * sqrt(batch)
    return ROWS * ceil(room / ceil(room / most) / ROWS)


def _together(before: Guarantee | None, now: Guarantee, disjoint: bool) -> Guarantee:
    """What every record is promised that was in any of the fits."""
    if before is None:
        return now
    if before.simulated or now.simulated:
        return NO_GUARANTEE
    return parallel([before, now]) if disjoint else compose([before, now])


def _of_all(fits: int) -> str:
    return "" if fits == 1 else f" of all {fits} fits"


def _rate_at(rate: Rate, step: int) -> float:
    number = rate(step) if callable(rate) else rate
    if not isfinite(number) or number < 0:
        raise ParameterError("the learning rate must be finite and at least 0 in every step")
    return float(number)


def _checked_epsilon(epsilon: float | None) -> float:
    if epsilon is None:
        raise ParameterError("epsilon is missing: the privacy budget of the whole training, for example epsilon=1.0")
    return checked_epsilon(epsilon)


def _checked_delta(delta: float | None) -> float:
    if delta is None:
        raise ParameterError("delta is missing: well below one over the number of records, for example delta=1e-5")
    if checked_delta(delta) == 0:
        raise ParameterError("Gaussian noise needs a delta above 0, for example delta=1e-5")
    return float(delta)


def _checked_length(epochs: float | None, steps: int | None) -> tuple[float | None, int | None]:
    if (epochs is None) == (steps is None):
        raise ParameterError("say how long to train: either epochs or steps")
    if steps is not None:
        return None, checked_count("steps", steps, 1)
    assert epochs is not None
    return _within("epochs", epochs, 0.0, float("inf")), None


def _within(name: str, number: float, least: float, most: float) -> float:
    value = checked_real(name, number)
    if not (least <= value <= most and isfinite(value)):
        raise ParameterError(f"{name} must be a finite number of at least {least:g}{_most(most)}")
    return value


def _most(most: float) -> str:
    return f" and at most {most:g}" if isfinite(most) else ""


def _recipe(clipping: str, clip: float, perturb: str | Recipe | Perturbation) -> Recipe:
    if clipping not in tuple(BOUNDS):
        raise ParameterError(f"clipping must be one of {', '.join(BOUNDS)}")
    if perturb == "gaussian":
        return Flat(clip) if clipping == "flat" else BOUNDS[clipping]()
    if isinstance(perturb, Perturbation):
        return _Calibrated(perturb)
    if callable(perturb):
        return perturb
    raise ParameterError('perturb must be "gaussian" or a recipe, as in dither.learn.geodp')


class _Calibrated(NamedTuple):
    """The recipe of a perturbation that is calibrated already."""

    perturbation: Perturbation

    def __call__(self, *asked: float) -> Perturbation:
        return self.perturbation


def _loss(loss: str | Loss) -> Loss:
    if callable(loss):
        return loss
    if loss not in LOSSES:
        raise ParameterError(f"loss must be one of {', '.join(LOSSES)}, or a function of outputs and labels")
    return LOSSES[loss]


@contextmanager
def _seeded_torch(stream: Stream) -> Iterator[None]:
    """Torch's own generator, for dropout and the like, seeded from the stream and put back afterwards."""
    before = torch.get_rng_state()
    torch.manual_seed(int(stream.spawn("torch").below(1 << 63, 1)[0]))
    try:
        yield
    finally:
        torch.set_rng_state(before)


def _bar(wanted: bool, steps: int) -> Any:
    return shown_progress("Training", steps, unit="steps") if wanted else nullcontext(lambda count: None)
