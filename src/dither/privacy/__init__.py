"""What is promised: certificates, composition, shuffling, audits, and the ledger on the device."""

from dither.core.guarantee import Guarantee
from dither.privacy.certificate import certify
from dither.privacy.composition import compose, parallel
from dither.privacy.ledger import BudgetError, Ledger, LedgerError
from dither.privacy.shuffle import amplify, bounds, local_budget, users_for

__all__ = [
    "BudgetError",
    "Guarantee",
    "Ledger",
    "LedgerError",
    "amplify",
    "bounds",
    "certify",
    "compose",
    "local_budget",
    "parallel",
    "users_for",
]
