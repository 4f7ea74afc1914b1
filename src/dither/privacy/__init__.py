"""What is promised: certificates, composition, and what a shuffler adds; audit and ledger with their issues."""

from dither.privacy.certificate import certify
from dither.privacy.composition import compose, parallel
from dither.privacy.shuffle import amplify, bounds, local_budget, users_for

__all__ = ["amplify", "bounds", "certify", "compose", "local_budget", "parallel", "users_for"]
