"""What is promised: certificates, composition, and what a shuffler adds; audit and ledger with their issues."""

from dither.core.guarantee import Guarantee
from dither.privacy.certificate import certify
from dither.privacy.composition import compose, parallel
from dither.privacy.shuffle import amplify, bounds, local_budget, users_for

__all__ = ["Guarantee", "amplify", "bounds", "certify", "compose", "local_budget", "parallel", "users_for"]
