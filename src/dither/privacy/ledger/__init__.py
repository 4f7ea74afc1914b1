"""The ledger: what a device has spent, and what it answers when it is asked again.

`ledger` holds the rules and what they promise, `store` the file, `prompt` what is seen of a plan.
"""

from dither.errors import BudgetError, LedgerError
from dither.privacy.ledger.ledger import Ledger

__all__ = ["BudgetError", "Ledger", "LedgerError"]
