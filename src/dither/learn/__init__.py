"""Models trained on private gradients: local, central and federated.

A gradient is a vector, and a vector is reported like any other value: clipped into a domain, randomized, tallied,
estimated. Three ways of trust, three ways of training:

- **local** (`LinearRegression`, `LogisticRegression`, `LinearSVC`): every user takes part in one step, with one report
  of a clipped gradient by a mechanism of the registry (`VectorReporter`). Nobody is trusted.
- **federated** (`Federation`; `learn.flower` for Flower): devices train for a few steps and report the whole update.
- **central** (`DPSGD`): a curator holds the records; the model that comes out is (epsilon, delta)-differentially
  private.

`learn.attack` measures what an attacker learns from a model; `learn.analysis` says what noise costs, before training.
Names are imported when they are first used: local models need no torch.
"""

from typing import Any

import lazy_loader

from dither.errors import MissingExtraError

_attached, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _attached(name)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "sklearn"):
            raise
        raise MissingExtraError(f"this needs {error.name}: pip install 'dither[learn]'") from None
