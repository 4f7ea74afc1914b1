"""What is promised: certificates, composition, sampling, shuffling, audits, and the ledger on the device."""

from dither.core.guarantee import Guarantee
from dither.privacy.auditing import Audit, audit, audit_table
from dither.privacy.certificate import certify
from dither.privacy.composition import compose, parallel
from dither.privacy.ledger import BudgetError, Ledger, LedgerError
from dither.privacy.shuffle import amplify, bounds, local_budget, users_for
from dither.privacy.subsampling import noise_multiplier, subsampled_gaussian

__all__ = [
    "Audit",
    "BudgetError",
    "Guarantee",
    "Ledger",
    "LedgerError",
    "amplify",
    "audit",
    "audit_table",
    "bounds",
    "certify",
    "compose",
    "local_budget",
    "noise_multiplier",
    "parallel",
    "subsampled_gaussian",
    "users_for",
]
