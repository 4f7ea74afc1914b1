"""Membership inference: what an attacker learns from a model about who was in its training data.

A certificate says what a model can tell at most; an attack shows what it tells at least (001 section 5.3.5 reports the
accuracy of one). The attacker sees a model and some records, and gives every record a *score*: the higher, the likelier
it was trained on. `loss_threshold` scores by the loss, `likelihood_ratio` by comparison with shadow models. Either
gives an `Attack`: what was found, and the epsilon that it proves. A weak attack proves nothing about the model.

`model_scores` reads losses off a model; `threshold` and `shadows` (with `softmax`) make scores of them. `evaluation`
makes an attack of scores: `curve` says how well they tell members from others, `membership_bound` what epsilon that
proves, and `result` shows it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
