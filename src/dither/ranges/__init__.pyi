from .copula import Copula as Copula
from .hio import HIO as HIO
from .lhio import LHIO as LHIO
from .methods import CALM as CALM
from .methods import HDG as HDG
from .methods import MSW as MSW
from .methods import TDG as TDG
from .methods import Uniform as Uniform
