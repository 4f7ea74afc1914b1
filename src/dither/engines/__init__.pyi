from .protocol import Engine as Engine
from .protocol import engine as engine
from .local import Local as Local
from .spark import Spark as Spark
