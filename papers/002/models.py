"""Linear models by stochastic gradient descent on randomized gradients (section 6.2).

The paper says: one pass, every user in at most one batch, theta <- theta - eta mean of the reported gradients. It does
not say batch, eta, clipping or split. Read here: 20 batches, eta_t = 1/sqrt(d t), entries of a gradient clipped to
[-1, 1], no regularization, 20,000 records to test. Dither adds two lines: the same descent with the mechanism of least
error for the gradient, and its own local model, whose steps are preconditioned by the public domains.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from sklearn import linear_model, svm

from dither import SampledDuchi, learn
from dither.learn import VectorReporter
from dither.reproduce.experiments import Experiment, Setting, grid
from dither.reproduce.measured import Number, measured_value

from . import as_printed
from .records import MeanReporter, Reported, mean_reporters
from .standins import DELTAS, DIMENSIONS, NAMES, Population, needed, population

EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
MODELS = ("linear regression", "logistic regression", "SVM")
BATCHES = 20
_TESTED = 20_000
_SPLITS = 4  # into records to train with and to test with: all lines of a setting have the same


class Split:
    """Records to train with and to test with, encoded; labels are numbers, or -1 and 1 by the mean."""

    def __init__(self, people: Population, model: str, users: int, seed: int) -> None:
        order = np.random.default_rng(seed).permutation(len(people.numbers))
        users = min(users, len(order) * 4 // 5)
        tested = order[users : users + _TESTED]
        label = people.numbers[:, -1]
        wanted = label if model == "linear regression" else np.where(label > label.mean(), 1.0, -1.0)
        self.model = model
        self.features, self.labels = people.features(order[:users]), wanted[order[:users]]
        self._features, self._labels = people.features(tested), wanted[tested]

    def error(self, coefficients: NDArray[np.float64], intercept: float = 0.0) -> float:
        """The mean squared error, or the rate of misclassification, on what was not trained with."""
        score = self._features @ coefficients + intercept
        if self.model == "linear regression":
            return float(np.mean((score - self._labels) ** 2))
        return float(np.mean(np.where(score > 0, 1.0, -1.0) != self._labels))


def gradients(model: str, coefficients: NDArray, features: NDArray, labels: NDArray) -> NDArray[np.float64]:
    """The clipped gradient of each record."""
    score = features @ coefficients
    if model == "linear regression":
        slope = score - labels
    elif model == "logistic regression":
        slope = -labels / (1 + np.exp(np.clip(labels * score, -500, 500)))
    else:
        slope = np.where(labels * score < 1, -labels, 0.0)
    return np.clip(slope[:, None] * features, -1, 1)


def descend(split: Split, reporter: MeanReporter | None, seed: int, passes: int = 1) -> NDArray[np.float64]:
    """The printed descent; without a reporter, gradients are seen as they are."""
    d = split.features.shape[1]
    coefficients = np.zeros(d)
    batches = np.array_split(np.arange(len(split.features)), BATCHES)
    for t in range(passes * BATCHES):
        here = batches[t % BATCHES]
        each = gradients(split.model, coefficients, split.features[here], split.labels[here])
        mean = each.mean(axis=0) if reporter is None else reporter.means(each[None], seed + t)[0]
        coefficients = coefficients - mean / (d * (t + 1)) ** 0.5
    return coefficients


@lru_cache(maxsize=32)
def without_privacy(source: str, data: str, model: str, users: int, seed: int) -> float:
    """The error of the usual solvers on the records as they are."""
    split = Split(population({"data": data, "source": source}), model, users, seed)
    solver = {
        "linear regression": linear_model.LinearRegression(),
        "logistic regression": linear_model.LogisticRegression(max_iter=1_000),
        "SVM": svm.LinearSVC(dual=False),  # pyright: ignore[reportArgumentType]
    }[model].fit(split.features, split.labels)
    return split.error(np.ravel(solver.coef_), float(np.ravel(solver.intercept_)[0]))


def model_errors(setting: Setting, seed: int) -> Iterator[Number]:
    """The error of a model on records that were not trained with, for all forms."""
    data, model, epsilon = str(setting["data"]), str(setting["model"]), float(setting["epsilon"])
    users, delta = int(setting["users"]), DELTAS[data]
    people = population(setting)
    split = Split(people, model, users, seed % _SPLITS)
    for place, (line, reporter) in enumerate(mean_reporters(DIMENSIONS[data], epsilon, delta).items()):
        yield measured_value(split.error(descend(split, reporter, seed + 1_000 * place)), line=line)
    kind = {
        "linear regression": learn.LinearRegression,
        "logistic regression": learn.LogisticRegression,
        "SVM": learn.LinearSVC,
    }[model]
    trained = kind(epsilon, delta, encoder=people.encoder(), seed=seed % 2**31).fit(split.features, split.labels)
    yield measured_value(
        split.error(np.ravel(trained.coef_), float(np.ravel(trained.intercept_)[0])), line="dither's model"
    )
    yield measured_value(split.error(descend(split, None, seed)), line="one pass without privacy")
    yield measured_value(
        without_privacy(str(setting["source"]), data, model, users, seed % _SPLITS), line="without privacy"
    )


def model_mechanisms(setting: Setting) -> list:
    """What the reports of a setting are made by."""
    data = str(setting["data"])
    reporters = mean_reporters(DIMENSIONS[data], float(setting["epsilon"]), DELTAS[data]).values()
    return [each.reporter.mechanism for each in reporters if isinstance(each, Reported)]


MODEL_ERRORS = Experiment(
    "002.model_errors",
    model_errors,
    grid(model=MODELS, data=NAMES, epsilon=EPSILONS),
    {"smoke": 1, "quick": 3, "full": 10},
    size={
        "smoke": {"users": 1_000, "source": "made up"},
        "quick": {"users": 40_000, "source": "real"},
        "full": {"users": 220_000, "source": "real"},
    },
    only={
        "smoke": (
            {"data": "BR", "epsilon": 1.0, "model": "linear regression"},
            {"data": "BR", "epsilon": 5.0, "model": "logistic regression"},
        )
    },
    mechanisms=model_mechanisms,
    data=needed,
)


def passes(setting: Setting, seed: int) -> Iterator[Number]:
    """Mechanism-2 with several passes over the users, who split their budget over them."""
    model, many = str(setting["model"]), int(setting["passes"])
    split = Split(population(setting), model, int(setting["users"]), seed)
    reporter = Reported(VectorReporter(_mechanism_2(setting), clip=1.0, norm="linf"))
    yield measured_value(split.error(descend(split, reporter, seed, passes=many)), line="Mechanism-2")


def _mechanism_2(setting: Setting) -> SampledDuchi:
    """For one of several passes."""
    data, many = str(setting["data"]), int(setting["passes"])
    d, epsilon = DIMENSIONS[data], float(setting["epsilon"]) / many
    return SampledDuchi(d, epsilon, DELTAS[data] / many, m=as_printed.printed_dimensions(d, epsilon))


PASSES = Experiment(
    "002.passes",
    passes,
    grid(data=("BR",), model=MODELS, epsilon=(1.0, 5.0), passes=(1, 2, 5)),
    {"smoke": 1, "quick": 4, "full": 10},
    size={
        "smoke": {"users": 1_000, "source": "made up"},
        "quick": {"users": 40_000, "source": "real"},
        "full": {"users": 220_000, "source": "real"},
    },
    only={"smoke": {"epsilon": 1.0, "model": "logistic regression"}},
    mechanisms=lambda setting: [_mechanism_2(setting)],
    data=needed,
)
