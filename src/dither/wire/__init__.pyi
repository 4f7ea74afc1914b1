from .batches import BatchFormat as BatchFormat
from .batches import CheckedBatch as CheckedBatch
from .batches import CONTENT_TYPE as CONTENT_TYPE
from .frames import BATCH_REASONS as BATCH_REASONS
from .frames import MOST_BYTES as MOST_BYTES
from .frames import MOST_REPORTS as MOST_REPORTS
from .frames import Frame as Frame
from .frames import read_frame as read_frame
