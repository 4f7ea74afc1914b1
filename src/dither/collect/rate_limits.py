"""Limits on how often somebody may ask, which keep no addresses.

**All together**: a bucket of tokens, filled at a steady rate.

**Each peer**: addresses are hashed with a salt into a table of counters. The salt and the table are thrown away every
few seconds, and neither is ever written down. So nobody can be found again, and the memory is the same however many
peers there are. Two peers may share a counter: then they share its limit for that time.
"""

import time
from hashlib import blake2b

from dither.core.randomness import secret

_COUNTERS = 1 << 14
_WINDOW = 10.0  # seconds


class RateLimit:
    """At most so many requests a second: of all together, and of each peer; None for any number.

    >>> limit = RateLimit(everybody=2.0)
    >>> [limit.allows("", now=0.0) for _ in range(3)], limit.allows("", now=1.0)
    ([True, True, False], True)
    """

    def __init__(self, everybody: float | None = None, peer: float | None = None) -> None:
        self._everybody, self._peer = everybody, peer
        self._left, self._filled = everybody or 0.0, 0.0
        self._salt, self._began, self._counters = b"", -_WINDOW, bytearray()

    def allows(self, peer: str, now: float | None = None) -> bool:
        """Whether a request of this peer may go on; it counts if it may."""
        if self._everybody is None and self._peer is None:
            return True
        now = time.monotonic() if now is None else now
        if self._peer is not None and not self._peer_allowed(peer, now):
            return False
        if self._everybody is None:
            return True
        self._left = min(max(self._everybody, 1.0), self._left + (now - self._filled) * self._everybody)
        self._filled = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True

    def _peer_allowed(self, peer: str, now: float) -> bool:
        if now - self._began >= _WINDOW:
            self._salt, self._began, self._counters = secret(16), now, bytearray(4 * _COUNTERS)
        place = int.from_bytes(blake2b(peer.encode(), digest_size=4, key=self._salt).digest(), "little") % _COUNTERS
        counter = memoryview(self._counters).cast("I")
        if counter[place] >= max(1.0, (self._peer or 0.0) * _WINDOW):
            return False
        counter[place] += 1
        return True
