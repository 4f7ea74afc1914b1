"""Grids and queries over several attributes: "what share is between 20 and 40, and earns over 50,000?".

Each user answers one grid over one or two attributes; the analyst gets answers to any range query over any attributes
(paper 004). The names here are found when they are first asked for, so that a device that only randomizes does not
import what answers queries.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dither.ranges.copula import Copula
    from dither.ranges.grid import Grid
    from dither.ranges.hio import HIO
    from dither.ranges.lhio import LHIO
    from dither.ranges.methods import CALM, HDG, MSW, TDG, Uniform

_HOMES = {
    "HDG": "dither.ranges.methods",
    "TDG": "dither.ranges.methods",
    "CALM": "dither.ranges.methods",
    "Copula": "dither.ranges.copula",
    "HIO": "dither.ranges.hio",
    "LHIO": "dither.ranges.lhio",
    "MSW": "dither.ranges.methods",
    "Uniform": "dither.ranges.methods",
    "Grid": "dither.ranges.grid",
}

__all__ = ["CALM", "HDG", "HIO", "LHIO", "MSW", "TDG", "Copula", "Grid", "Uniform"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
