"""The loss threshold (Yeom et al. 2018): models fit what they were trained on, so a small loss speaks for a member.

One number for hard and easy records alike: a hard member looks like no member, and an easy record like one. It needs
nothing but losses, and where models learn by heart it is enough.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import real_array
from dither.core.guarantee import Guarantee
from dither.errors import DomainError
from dither.learn.attack.evaluation import Settings, check_number, judged
from dither.learn.attack.model_scores import losses, pair
from dither.learn.attack.result import Attack

Numbers = NDArray[np.float64]


def loss_threshold(
    members: Any,
    others: Any,
    model: Any = None,
    *,
    certificate: Guarantee | None = None,
    relation: str = "add-or-remove",
    delta: float | None = None,
    coins: bool = False,
    confidence: float = 0.99,
    seed: int | None = None,
) -> Attack:
    """Call those members whose loss is small.

    `members` and `others` are losses, or with a `model` pairs (inputs, labels); see `losses` for what a model may be.
    They must be drawn from one population: halves of a random split, or with `coins=True` records that a fair coin each
    put in or left out. `certificate` is what the model promises, for records that are added or removed (`DPSGD`) or
    replaced (`relation="replace"`, local mechanisms); without one, `delta` is that of the epsilon to be bounded.
    `seed` decides how the records are halved and paired.

    >>> attack = loss_threshold([0.1, 0.2, 0.1, 0.3] * 50, [0.2, 0.9, 1.3, 0.4] * 50, seed=1)
    >>> attack.area.value, attack.refuted
    (0.90625, False)
    """
    settings = Settings(certificate, relation, delta, coins, confidence, seed).checked()
    if model is not None:
        members, others = losses(model, *pair("members", members)), losses(model, *pair("others", others))
    ours, theirs = _scores("members", members), _scores("others", others)
    check_number(len(ours), len(theirs))
    return judged("loss threshold", -ours, -theirs, settings)


def _scores(name: str, given: Any) -> Numbers:
    scores = real_array(given)
    if scores is None or scores.ndim != 1:
        raise DomainError(f"the losses of the {name} must be a list of numbers (with a model: inputs and labels)")
    if np.isnan(scores).any():
        raise DomainError(f"among the losses of the {name} is one that is not a number; leave such records out")
    return np.clip(scores, -1e300, 1e300)
