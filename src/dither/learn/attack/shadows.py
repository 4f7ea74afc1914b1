"""Shadow models and the likelihood ratio (LiRA; Carlini et al. 2022).

Records differ: some are easy for every model, some hard for all. Shadow models, trained with the record and without,
tell what confidence to expect of either. The log-odds of a record's label are about normal over models, and the score
is the log ratio of the two densities at what the model under attack says (*online*), or how far it lies above what
models without the record show (*offline*), in standard deviations. A spread for each record needs many models; of fewer
than 64, all records share one.

**What goes wrong.** Shadow models that are not trained as the one under attack was: then they tell nothing about it,
and the attack is weak.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count
from dither.core.guarantee import Guarantee
from dither.core.randomness import Stream
from dither.errors import ParameterError
from dither.learn.attack.evaluation import FEWEST, Settings, check_number, judged, stream_of
from dither.learn.attack.model_scores import Records, columns, log_odds, log_softmax, odds, pair
from dither.learn.attack.result import Attack
from dither.learn.attack.softmax import SoftmaxTrainer, fitting_threads, table_of

Numbers = NDArray[np.float64]
Train = Callable[[Any, Any, int], Any]

_LEAST_SPREAD = 1e-3  # of log-odds, where all shadow models agree
_MANY_SHADOWS = 64  # from here on each record has a spread of its own


def likelihood_ratio(
    members: Records,
    others: Records,
    model: Any,
    train: Train | SoftmaxTrainer,
    *,
    shadows: int = 32,
    online: bool = True,
    population: Records | None = None,
    certificate: Guarantee | None = None,
    relation: str = "add-or-remove",
    delta: float | None = None,
    coins: bool = False,
    confidence: float = 0.99,
    seed: int | None = None,
    progress: Callable[[Sequence[int]], Any] | None = None,
) -> Attack:
    """Compare a model's confidence in each record with that of shadow models, with the record and without.

    `train(inputs, labels, seed)` makes a model as the one under attack was made. Each of the `shadows` is trained on a
    random half of all records, so that every record is in half of them. Offline, only the shadows without a record
    speak about it; with a `population` (inputs, labels) of other records they are trained on halves of that, before
    any record is seen. A `SoftmaxTrainer` trains all of them at once. All else as in `loss_threshold`.

    >>> trainer = SoftmaxTrainer(classes=2, steps=100)
    >>> words = Stream.seeded(1).words(lane=0, rows=slice(0, 160), width=61)
    >>> inputs, labels = words[:, 1:] / 2.0**63 - 1, (words[:, 0] % 2).astype(int)  # nothing to learn but by heart
    >>> ours, theirs = (inputs[:80], labels[:80]), (inputs[80:], labels[80:])
    >>> found = likelihood_ratio(ours, theirs, trainer(*ours), trainer, shadows=16, seed=1)
    >>> found.area.value > 0.65
    True
    """
    settings = Settings(certificate, relation, delta, coins, confidence, seed).checked()
    shadows = checked_count("shadows", shadows, 4, 1 << 16)
    if shadows % 2:
        raise ParameterError("shadows must be an even number: every record is in half of them")
    if online and population is not None:
        raise ParameterError("models of another population never saw the records: say online=False")
    if not callable(train):
        raise ParameterError("train must be a function of (inputs, labels, seed) that gives a model")
    ours, theirs = pair("members", members), pair("others", others)
    check_number(len(ours[1]), len(theirs[1]))
    inputs, labels = (
        np.concatenate([np.asarray(ours[0]), np.asarray(theirs[0])]),
        np.concatenate([np.asarray(ours[1]), np.asarray(theirs[1])]),
    )
    stream = stream_of(seed).spawn("shadows")
    inside = shadow_halves(stream, shadows, len(labels))
    pool = (inputs, labels)
    if population is not None:
        pool = pair("population", population)
        if len(pool[1]) < FEWEST:
            raise ParameterError(f"a population needs at least {FEWEST} records")
        half = shadow_halves(stream.spawn("population"), shadows, len(pool[1]))
        inside = np.zeros_like(inside)
    else:
        half = inside
    seeds = [int(each) for each in stream.below(1 << 31, shadows, lane=1)]
    target = log_odds(model, inputs, labels)  # first: shadows take long, and for nothing if the model does not fit
    shown = _shadowed(train, pool, half, seeds, (inputs, labels), progress)
    score = _ratio(target, shown, inside, online)
    name = f"likelihood ratio ({'online' if online else 'offline'}, {shadows} shadows)"
    return judged(name, score[: len(ours[1])], score[len(ours[1]) :], settings)


def shadow_halves(stream: Stream, shadows: int, records: int) -> NDArray[np.bool_]:
    """For each shadow model the records that it sees; every record is seen by exactly half of them."""
    words = stream.words(lane=0, rows=slice(0, records), width=shadows)
    return (np.argsort(np.argsort(words, axis=1, kind="stable"), axis=1) < shadows // 2).T


def _shadowed(
    train: Any, pool: Records, half: NDArray[np.bool_], seeds: list[int], records: Records, progress: Any
) -> Numbers:
    """The log-odds that each shadow model (rows) gives to each record (columns)."""
    inputs, labels = pool
    if isinstance(train, SoftmaxTrainer):
        at, x = columns(records[1], train.classes), table_of(records[0])
        weights = train.many(inputs, labels, half)
        with fitting_threads(weights[0].size * len(x)):
            return np.stack([odds(log_softmax(x @ each), at) for each in weights])
    rows = []
    for number in (progress or iter)(range(len(half))):
        chosen = np.flatnonzero(half[number])
        rows.append(log_odds(train(inputs[chosen], labels[chosen], seeds[number]), *records))
    return np.stack(rows)


def _ratio(target: Numbers, shown: Numbers, inside: NDArray[np.bool_], online: bool) -> Numbers:
    """The score of each record, from normal fits to the log-odds of models with it and without."""
    center, spread = _normal(shown, ~inside)
    if not online:
        return (target - center) / spread
    with_center, with_spread = _normal(shown, inside)
    near, far = (target - with_center) / with_spread, (target - center) / spread
    return 0.5 * (far**2 - near**2) + np.log(spread / with_spread)


def _normal(shown: Numbers, chosen: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
    """Mean and spread of the chosen entries of each column; of few models, one spread that all records share."""
    count = chosen.sum(axis=0)
    center = np.where(chosen, shown, 0.0).sum(axis=0) / count
    squares = np.where(chosen, (shown - center) ** 2, 0.0).sum(axis=0)
    if len(shown) < _MANY_SHADOWS:
        variance = np.full(len(center), squares.sum() / max(1, (count - 1).sum()))
    else:
        variance = squares / (count - 1)
    return center, np.maximum(np.sqrt(variance), _LEAST_SPREAD)
