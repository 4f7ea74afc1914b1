"""The one source of random bits.

A `Stream` is AES-256 in counter mode under one key: an endless, random-access tape of 64-bit words. Its
key comes from the operating system, or from a hash of a seed for simulations; nothing else in dither makes
randomness, and no float is involved.

**Every row owns its words.** Word j of row i in lane l at attempt a is a pure function of the key and of (l, a, i,
j), as long as a lane is always read with the same number of words a row: the counter block is written as lane |
attempt | position. So a simulated report does not depend on how the rows were cut into chunks, on threads, or on
which rows had to be drawn again. A *lane* is one purpose (the draw, the hash seed, ...). An *attempt* starts when a
word was rejected: exact sampling below a bound needs rejection, and a rejected row reads its next words from the
next attempt, leaving all the others alone.

**Fork.** A stream keyed from the operating system remembers its process and takes a fresh key when it wakes up in
another, so a forked worker never repeats its parent's noise. Parallel workers of one simulation
use `spawn`, whose keys are hashes of the parent's key and a label.
"""

import hashlib
import os
import struct
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from dither.core.checks import whole_number
from dither.core.draw import Rows, Words, below
from dither.errors import ParameterError

_PIECE = 1 << 20
_ZEROS = memoryview(bytes(_PIECE))
_LITTLE = np.dtype("<u8")
_counter = struct.Struct(">IIQ").pack  # a block of the cipher's counter: lane, attempt, position
_FEW = 32  # cipher blocks: for fewer, to set up the cipher is most of the time


class Stream:
    """A keyed, random-access tape of uniform 64-bit words.

    >>> Stream.seeded(7).words(lane=0, rows=slice(0, 2), width=1).tolist() == \\
    ...     Stream.seeded(7).words(lane=0, rows=slice(0, 3), width=1)[:2].tolist()
    True
    """

    bits = 64

    def __init__(self, key: bytes, *, simulated: bool) -> None:
        if len(key) != 32:
            raise ParameterError("a stream needs a key of 32 bytes")
        self._key = key
        self._owner = os.getpid()
        self._block_ciphers: list[Any] = []  # that nobody is using
        self.simulated = simulated

    @classmethod
    def secure(cls) -> "Stream":
        """A stream keyed by the operating system: the only kind that protects anybody."""
        return cls(os.urandom(32), simulated=False)

    @classmethod
    def seeded(cls, seed: int, *labels: str) -> "Stream":
        """A stream that anyone with the seed can repeat: for simulations and tests."""
        number = whole_number(seed)
        if number is None:
            raise ParameterError(f"seed must be a whole number or None, not {type(seed).__name__}")
        return cls(_digest(b"dither seed", str(number), *labels), simulated=True)

    def __repr__(self) -> str:
        return f"Stream({'simulated' if self.simulated else 'secure'})"

    def __reduce__(self):
        raise ParameterError("a stream holds a secret key and is not pickled; make one where it is used")

    def spawn(self, *labels: str) -> "Stream":
        """An independent stream for a worker; the same labels give the same stream."""
        return type(self)(_digest(self._live_key(), *labels), simulated=self.simulated)

    def slots(self, label: str, number: int) -> "Stream":
        """An independent stream for the parts of a row: slot s of row i is row i * number + s of it."""
        return self.spawn("slots", label, str(number))

    def words(self, lane: int, rows: Rows, width: int = 1, attempt: int = 0, out: Words | None = None) -> Words:
        """`width` words for each of the rows: a range as a slice, or any rows as an index array.

        `out` is memory that may be overwritten with the answer, to save its allocation.
        """
        if isinstance(rows, slice):
            return self._run(lane, attempt, rows.start, rows.stop - rows.start, width, out)
        if rows.size <= 1:
            return self._run(lane, attempt, int(rows[0]), 1, width) if rows.size else np.empty((0, width), np.uint64)
        first, last = int(rows.min()), int(rows.max())
        if (last - first + 1) * width * 8 <= max(_PIECE, 256 * rows.size * width):
            return self._run(lane, attempt, first, last - first + 1, width)[rows - first]
        return np.concatenate([self._run(lane, attempt, int(row), 1, width) for row in rows])

    def below(self, bound: int, size: int, *, lane: int = 0, first: int = 0) -> NDArray:
        """`size` exact uniform integers in [0, bound): `uint64`, or Python integers above 2^64.

        >>> bool(Stream.seeded(1).below(6, 1000).max() <= 5)
        True
        """
        return below(bound, self, slice(first, first + size), lane=lane)

    def order(self, count: int, *, lane: int = 0) -> NDArray[np.intp]:
        """The numbers from 0 to count - 1 in a random order: for public choices, such as who is asked first.

        >>> sorted(Stream.seeded(1).order(4).tolist())
        [0, 1, 2, 3]
        """
        return np.argsort(self.words(lane, slice(0, count))[:, 0], kind="stable")

    def _live_key(self) -> bytes:
        if not self.simulated and self._owner != os.getpid():
            self._block_ciphers = []  # first of all: another thread must not meet those of the old key
            self._key, self._owner = os.urandom(32), os.getpid()
        return self._key

    def _run(self, lane: int, attempt: int, first: int, rows: int, width: int, out: Words | None = None) -> Words:
        """Consecutive rows, straight from the cipher. A cipher block holds two words."""
        start, count = first * width, rows * width
        skip = start % 2
        blocks = (skip + count + 1) // 2
        if blocks <= _FEW:
            words = self._few_blocks(lane, attempt, start // 2, blocks)
            return words[skip : skip + count].reshape(rows, width)
        counter = _counter(lane, attempt, start // 2)
        cipher = Cipher(algorithms.AES(self._live_key()), modes.CTR(counter)).encryptor()
        fits = out is not None and out.size == blocks * 2 and out.dtype == _LITTLE and out.flags.c_contiguous
        words = out.reshape(-1) if out is not None and fits else np.empty(blocks * 2, dtype=_LITTLE)
        view = words.data.cast("B")
        for at in range(0, len(view), _PIECE):
            piece = view[at : at + _PIECE]
            cipher.update_into(_ZEROS[: len(piece)], piece)
        return words[skip : skip + count].astype(np.uint64, copy=False).reshape(rows, width)

    def _few_blocks(self, lane: int, attempt: int, first: int, blocks: int) -> Words:
        """The same words, by a cipher that was set up before: counter mode is the cipher on the counters themselves.

        A cipher is taken out while it is in use, since threads share a stream, and must not share a cipher.
        """
        key = self._live_key()
        try:
            cipher = self._block_ciphers.pop()
        except IndexError:
            cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - no counter comes twice
        counters = _counter(lane, attempt, first)
        if blocks > 1:
            counters += b"".join([_counter(lane, attempt, block) for block in range(first + 1, first + blocks)])
        words = np.frombuffer(bytearray(cipher.update(counters)), dtype=_LITTLE)
        self._block_ciphers.append(cipher)
        return words if _LITTLE.isnative else words.astype(np.uint64)


def secret(count: int) -> bytes:
    """So many random bytes for a key that people keep."""
    return os.urandom(count)


def token(count: int) -> str:
    """A name that nothing else has, in hexadecimal digits of so many random bytes: for files, never for reports."""
    return os.urandom(count).hex()


def _digest(secret: bytes, *labels: str) -> bytes:
    """A 32-byte key from a secret and labels; each part is framed by its length, so no two lists collide."""
    state = hashlib.blake2b(digest_size=32, person=b"dither stream")
    for part in (secret, *(label.encode() for label in labels)):
        state.update(len(part).to_bytes(8, "little") + part)
    return state.digest()
