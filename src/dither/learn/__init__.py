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

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dither.errors import MissingExtraError

if TYPE_CHECKING:
    from dither.learn import analysis as analysis
    from dither.learn import attack as attack
    from dither.learn import flower as flower
    from dither.learn.dpsgd import DPSGD as DPSGD
    from dither.learn.encoding import Encoder as Encoder
    from dither.learn.federated import Federation as Federation
    from dither.learn.linear import LinearRegression as LinearRegression
    from dither.learn.linear import LinearSVC as LinearSVC
    from dither.learn.linear import LogisticRegression as LogisticRegression
    from dither.learn.linear import load_model as load_model
    from dither.learn.vector_reporter import VectorReporter as VectorReporter

_HOMES = {
    "DPSGD": "dpsgd",
    "Encoder": "encoding",
    "VectorReporter": "reporter",
    "Federation": "federated",
    "LinearRegression": "linear",
    "LinearSVC": "linear",
    "LogisticRegression": "linear",
    "load_model": "linear",
}
_PARTS = ("analysis", "attack", "flower")


_OPTIONAL = ("torch", "sklearn")


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return _imported(name)
    if name in _HOMES:
        return getattr(_imported(_HOMES[name]), name)
    raise AttributeError(f"module 'dither.learn' has no attribute {name!r}")


def _imported(part: str) -> Any:
    """A module of this room, or the extra that it lacks."""
    try:
        return import_module(f"dither.learn.{part}")
    except ModuleNotFoundError as error:
        if error.name not in _OPTIONAL:
            raise
        raise MissingExtraError(f"this needs {error.name}: pip install 'dither[learn]'") from None


def __dir__() -> list[str]:
    return sorted([*_HOMES, *_PARTS])
