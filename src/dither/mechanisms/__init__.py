"""The local randomizers, one family a file, found by name in `registry`.

The registry is a lazy table of names: a module is imported when its mechanism is first asked for. The command
line, the documentation, the benchmarks, the audit and the contract tests all iterate over it, so a
mechanism is added in one place: its file, and its line here.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dither.core.mechanism import Mechanism
from dither.errors import ParameterError

if TYPE_CHECKING:
    from dither.mechanisms.additive import Gaussian, Laplace
    from dither.mechanisms.ballgaussian import BallGaussian
    from dither.mechanisms.collision import CoCo, Collision
    from dither.mechanisms.grr import GRR
    from dither.mechanisms.hadamard import Hadamard
    from dither.mechanisms.histogram import Histogram
    from dither.mechanisms.hybrid import Hybrid
    from dither.mechanisms.hypercube import Hypercube
    from dither.mechanisms.localhash import LocalHash
    from dither.mechanisms.longitudinal import LGRR, LHash, LUnary
    from dither.mechanisms.pckv import PCKV_AGRR, PCKV_GRR, PCKV_UE, PrivKV
    from dither.mechanisms.personalised import Personalised
    from dither.mechanisms.sampled import Sampled, SampledDuchi, Split
    from dither.mechanisms.subset import SubsetSelection
    from dither.mechanisms.succinct import SignSum, Succinct
    from dither.mechanisms.unary import Unary
    from dither.mechanisms.unitvector import UnitVector
    from dither.mechanisms.window import Duchi, Piecewise, SquareWave
    from dither.ranges.copula import Copula
    from dither.ranges.hio import HIO
    from dither.ranges.lhio import LHIO
    from dither.ranges.methods import CALM, HDG, MSW, TDG, Uniform

_HOMES = {
    "GRR": "dither.mechanisms.grr",
    "Unary": "dither.mechanisms.unary",
    "LocalHash": "dither.mechanisms.localhash",
    "SubsetSelection": "dither.mechanisms.subset",
    "Hadamard": "dither.mechanisms.hadamard",
    "Piecewise": "dither.mechanisms.window",
    "SquareWave": "dither.mechanisms.window",
    "Duchi": "dither.mechanisms.window",
    "Hybrid": "dither.mechanisms.hybrid",
    "Laplace": "dither.mechanisms.additive",
    "Gaussian": "dither.mechanisms.additive",
    "Personalised": "dither.mechanisms.personalised",
    "Histogram": "dither.mechanisms.histogram",
    "Sampled": "dither.mechanisms.sampled",
    "Split": "dither.mechanisms.sampled",
    "SampledDuchi": "dither.mechanisms.sampled",
    "Hypercube": "dither.mechanisms.hypercube",
    "UnitVector": "dither.mechanisms.unitvector",
    "BallGaussian": "dither.mechanisms.ballgaussian",
    "Collision": "dither.mechanisms.collision",
    "CoCo": "dither.mechanisms.collision",
    "PrivKV": "dither.mechanisms.pckv",
    "PCKV_UE": "dither.mechanisms.pckv",
    "PCKV_GRR": "dither.mechanisms.pckv",
    "PCKV_AGRR": "dither.mechanisms.pckv",
    "Succinct": "dither.mechanisms.succinct",
    "SignSum": "dither.mechanisms.succinct",
    "LGRR": "dither.mechanisms.longitudinal",
    "LUnary": "dither.mechanisms.longitudinal",
    "LHash": "dither.mechanisms.longitudinal",
    "Copula": "dither.ranges.copula",
    "HDG": "dither.ranges.methods",
    "TDG": "dither.ranges.methods",
    "CALM": "dither.ranges.methods",
    "HIO": "dither.ranges.hio",
    "LHIO": "dither.ranges.lhio",
    "MSW": "dither.ranges.methods",
    "Uniform": "dither.ranges.methods",
}

__all__ = [
    "CALM",
    "GRR",
    "HDG",
    "HIO",
    "LGRR",
    "LHIO",
    "MSW",
    "PCKV_AGRR",
    "PCKV_GRR",
    "PCKV_UE",
    "TDG",
    "BallGaussian",
    "CoCo",
    "Collision",
    "Copula",
    "Duchi",
    "Gaussian",
    "Hadamard",
    "Histogram",
    "Hybrid",
    "Hypercube",
    "LHash",
    "LUnary",
    "Laplace",
    "LocalHash",
    "Personalised",
    "Piecewise",
    "PrivKV",
    "Sampled",
    "SampledDuchi",
    "SignSum",
    "Split",
    "SquareWave",
    "SubsetSelection",
    "Succinct",
    "Unary",
    "Uniform",
    "UnitVector",
    "load",
    "registry",
]


class Registry(Mapping[str, type[Mechanism]]):
    """Every mechanism by its name.

    >>> registry["GRR"](k=3, epsilon=1.0)
    GRR(k=3, epsilon=1.0, delta=0.0)
    """

    def __getitem__(self, name: str) -> type[Mechanism]:
        if name not in _HOMES:
            raise KeyError(name)
        return getattr(import_module(_HOMES[name]), name)

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)

    def __repr__(self) -> str:
        return f"registry of {len(self)} mechanisms: {', '.join(self)}"

    def find(self, name: str) -> type[Mechanism]:
        """The mechanism with this name in any case, or an error that lists the names."""
        for known in _HOMES:
            if known.lower() == name.lower():
                return self[known]
        raise ParameterError(f"no mechanism has this name; there are {', '.join(_HOMES)}")


registry = Registry()


def load(stored: Mapping[str, Any]) -> Mechanism:
    """A mechanism from its `to_dict`: the stored integers are kept, and certified again.

    >>> load(registry["GRR"](k=3, epsilon=1.0).to_dict()).k
    3
    """
    return registry.find(str(stored.get("mechanism", ""))).from_dict(stored)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return registry[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
