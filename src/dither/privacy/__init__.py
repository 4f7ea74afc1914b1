"""What is promised: certificates, and what a shuffler adds; composition, audit and ledger with their issues."""

from dither.privacy.certificate import certify
from dither.privacy.shuffle import amplify, bounds, local_budget, users_for

__all__ = ["amplify", "bounds", "certify", "local_budget", "users_for"]
