"""What is promised: certificates now; composition, shuffling, audit and ledger with their issues."""

from dither.privacy.certificate import certify

__all__ = ["certify"]
