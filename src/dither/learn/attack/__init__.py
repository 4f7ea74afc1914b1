"""Membership inference: what an attacker learns from a model about who was in its training data.

A certificate says what a model can tell at most; an attack shows what it tells at least (001 section 5.3.5 reports the
accuracy of one). The attacker sees a model and some records, and gives every record a *score*: the higher, the likelier
it was trained on. `loss_threshold` scores by the loss, `likelihood_ratio` by comparison with shadow models. Either
gives an `Attack`: what was found, and the epsilon that it proves. A weak attack proves nothing about the model.

`models` reads losses off a model; `threshold` and `shadows` (with `softmax`) make scores of them. `judging` makes an
attack of scores: `curve` says how well they tell members from others, `bound` what epsilon that proves, and `result`
shows it.
"""

from dither.learn.attack.evaluation import FEWEST
from dither.learn.attack.membership_bound import RELATIONS, chance
from dither.learn.attack.model_scores import Numbers, Records, log_odds, losses
from dither.learn.attack.result import FALSE_ALARMS, Attack, Rate, attacks_table
from dither.learn.attack.shadows import Train, likelihood_ratio
from dither.learn.attack.softmax import Softmax, SoftmaxTrainer
from dither.learn.attack.threshold import loss_threshold

__all__ = [
    "FALSE_ALARMS",
    "FEWEST",
    "RELATIONS",
    "Attack",
    "Numbers",
    "Rate",
    "Records",
    "Softmax",
    "SoftmaxTrainer",
    "Train",
    "attacks_table",
    "chance",
    "likelihood_ratio",
    "log_odds",
    "loss_threshold",
    "losses",
]
