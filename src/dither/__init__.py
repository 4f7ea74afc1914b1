"""dither: noise added on purpose, so that the crowd comes out clear and nobody in it does.

Plan, run and analyse the collection of data under local and shuffle differential privacy. Public names are
imported when they are first used, so that a client that only randomizes stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dither import engines as engines
    from dither import learn as learn
    from dither import mechanisms as mechanisms
    from dither import privacy as privacy
    from dither import ranges as ranges
    from dither import utility as utility
    from dither.core.channel import Channel as Channel
    from dither.core.estimate import Estimate as Estimate
    from dither.core.estimate import Estimates as Estimates
    from dither.core.guarantee import Guarantee as Guarantee
    from dither.core.mechanism import Mechanism as Mechanism
    from dither.core.reports import Reports as Reports
    from dither.core.tally import Tally as Tally
    from dither.errors import DitherError as DitherError
    from dither.mechanisms import GRR as GRR
    from dither.mechanisms import LGRR as LGRR
    from dither.mechanisms import PCKV_AGRR as PCKV_AGRR
    from dither.mechanisms import PCKV_GRR as PCKV_GRR
    from dither.mechanisms import PCKV_UE as PCKV_UE
    from dither.mechanisms import BallGaussian as BallGaussian
    from dither.mechanisms import CoCo as CoCo
    from dither.mechanisms import Collision as Collision
    from dither.mechanisms import Duchi as Duchi
    from dither.mechanisms import Gaussian as Gaussian
    from dither.mechanisms import Hadamard as Hadamard
    from dither.mechanisms import Histogram as Histogram
    from dither.mechanisms import Hybrid as Hybrid
    from dither.mechanisms import Hypercube as Hypercube
    from dither.mechanisms import Laplace as Laplace
    from dither.mechanisms import LHash as LHash
    from dither.mechanisms import LocalHash as LocalHash
    from dither.mechanisms import LUnary as LUnary
    from dither.mechanisms import Personalised as Personalised
    from dither.mechanisms import Piecewise as Piecewise
    from dither.mechanisms import PrivKV as PrivKV
    from dither.mechanisms import Sampled as Sampled
    from dither.mechanisms import SampledDuchi as SampledDuchi
    from dither.mechanisms import SignSum as SignSum
    from dither.mechanisms import Split as Split
    from dither.mechanisms import SquareWave as SquareWave
    from dither.mechanisms import SubsetSelection as SubsetSelection
    from dither.mechanisms import Succinct as Succinct
    from dither.mechanisms import Unary as Unary
    from dither.mechanisms import UnitVector as UnitVector
    from dither.mechanisms import registry as registry
    from dither.planning import Plan as Plan
    from dither.planning import plan as plan
    from dither.ranges import CALM as CALM
    from dither.ranges import HDG as HDG
    from dither.ranges import HIO as HIO
    from dither.ranges import LHIO as LHIO
    from dither.ranges import MSW as MSW
    from dither.ranges import TDG as TDG
    from dither.ranges import Copula as Copula
    from dither.ranges import Uniform as Uniform
    from dither.schema import Categorical as Categorical
    from dither.schema import KeyValue as KeyValue
    from dither.schema import Numeric as Numeric
    from dither.schema import Ordinal as Ordinal
    from dither.schema import Schema as Schema

__version__ = "0.2.0"

_HOMES = {
    "Categorical": "dither.schema",
    "Channel": "dither.core.channel",
    "DitherError": "dither.errors",
    "Estimate": "dither.core.estimate",
    "Estimates": "dither.core.estimate",
    "Guarantee": "dither.core.guarantee",
    "KeyValue": "dither.schema",
    "Mechanism": "dither.core.mechanism",
    "Numeric": "dither.schema",
    "Ordinal": "dither.schema",
    "Plan": "dither.planning",
    "Reports": "dither.core.reports",
    "Schema": "dither.schema",
    "Tally": "dither.core.tally",
    "plan": "dither.planning",
    "registry": "dither.mechanisms",
}
_ROOMS = ("engines", "learn", "mechanisms", "planning", "privacy", "ranges", "refine", "utility")


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"dither.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if not name.startswith("_"):
        mechanisms = import_module("dither.mechanisms")
        if name in mechanisms.registry:
            return mechanisms.registry[name]
    raise AttributeError(f"module 'dither' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_HOMES, *_ROOMS, *import_module("dither.mechanisms").registry, "__version__"])
