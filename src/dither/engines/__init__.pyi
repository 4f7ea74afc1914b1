from .protocol import Engine as Engine
from .protocol import engine as engine
from .local import Local as Local
from .spark import Spark as Spark
from .spark_stream import TallyStream as TallyStream
from .tally_folder import TallyFolder as TallyFolder
from .incremental_tally import Addition as Addition
from .incremental_tally import add_to_tally as add_to_tally
