# The public names: one line each, for type checkers, for `dither.<name>` and for the registry, which holds whatever is
# taken from `.mechanisms` and `.ranges` here, in this order: of equally good ones the planner takes the first.
from . import collect as collect
from . import engines as engines
from . import errors as errors
from . import learn as learn
from . import mechanisms as mechanisms
from . import planning as planning
from . import privacy as privacy
from . import questions as questions
from . import ranges as ranges
from . import refine as refine
from . import testing as testing
from . import utility as utility
from . import wire as wire
from .core.channel import Channel as Channel
from .core.estimate import Estimate as Estimate
from .core.estimate import Estimates as Estimates
from .core.guarantee import Guarantee as Guarantee
from .core.mechanism import Mechanism as Mechanism
from .core.reports import Reports as Reports
from .core.tally import Tally as Tally
from .errors import DitherError as DitherError
from .mechanisms.lookup import registry as registry
from .planning import Budget as Budget
from .planning import Plan as Plan
from .planning import plan as plan
from .planning.infer import infer as infer
from .schema import Categorical as Categorical
from .schema import KeyValue as KeyValue
from .schema import Numeric as Numeric
from .schema import Ordinal as Ordinal
from .schema import Public as Public
from .schema import Schema as Schema

# Categories
from .mechanisms import GRR as GRR
from .mechanisms import Unary as Unary
from .mechanisms import LocalHash as LocalHash
from .mechanisms import SubsetSelection as SubsetSelection
from .mechanisms import Hadamard as Hadamard
from .mechanisms import ProjectiveGeometry as ProjectiveGeometry
from .mechanisms import OneHotGaussian as OneHotGaussian

# Numbers
from .mechanisms import Duchi as Duchi
from .mechanisms import Piecewise as Piecewise
from .mechanisms import SquareWave as SquareWave
from .mechanisms import QuantileWave as QuantileWave
from .mechanisms import Hybrid as Hybrid
from .mechanisms import Laplace as Laplace
from .mechanisms import Gaussian as Gaussian
from .mechanisms import Personalised as Personalised
from .mechanisms import Histogram as Histogram

# Records of several attributes, and vectors
from .mechanisms import Sampled as Sampled
from .mechanisms import Split as Split
from .mechanisms import Hypercube as Hypercube
from .mechanisms import SampledDuchi as SampledDuchi
from .mechanisms import UnitVector as UnitVector
from .mechanisms import BallGaussian as BallGaussian

# Sparse vectors, keys with values
from .mechanisms import Collision as Collision
from .mechanisms import CoCo as CoCo
from .mechanisms import SignSum as SignSum
from .mechanisms import PCKV_UE as PCKV_UE
from .mechanisms import PCKV_GRR as PCKV_GRR
from .mechanisms import PCKV_AGRR as PCKV_AGRR
from .mechanisms import PrivKV as PrivKV
from .mechanisms import Succinct as Succinct

# Asked again and again
from .mechanisms import LGRR as LGRR
from .mechanisms import LUnary as LUnary
from .mechanisms import LHash as LHash

# Ranges of several attributes
from .ranges import Copula as Copula
from .ranges import HDG as HDG
from .ranges import TDG as TDG
from .ranges import CALM as CALM
from .ranges import HIO as HIO
from .ranges import LHIO as LHIO
from .ranges import MSW as MSW
from .ranges import Uniform as Uniform

__version__: str
