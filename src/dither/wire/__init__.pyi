from .batches import BATCH_REASONS as BATCH_REASONS
from .batches import CONTENT_TYPE as CONTENT_TYPE
from .batches import MOST_BYTES as MOST_BYTES
from .batches import MOST_REPORTS as MOST_REPORTS
from .batches import BatchFormat as BatchFormat
from .batches import CheckedBatch as CheckedBatch
