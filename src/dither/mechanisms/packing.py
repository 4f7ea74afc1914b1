"""Reports of k bits, packed: bit v is bit v % 8 (lowest first) of byte v // 8; the last byte is padded with zeros."""

import numpy as np
from numpy.typing import NDArray

from dither import kernels

MOST_BITS = 1 << 24


def bits_dtype(k: int) -> np.dtype:
    """The dtype of a report that holds k packed bits."""
    return np.dtype([("bits", f"V{-(-k // 8)}")])


def as_bytes(reports: NDArray) -> NDArray[np.uint8]:
    """The packed bytes of the reports, one row a report; a view where memory allows it."""
    packed = np.ascontiguousarray(reports["bits"])
    return packed.view(np.uint8).reshape(len(packed), packed.dtype.itemsize)


def padding_is_clear(reports: NDArray, k: int) -> NDArray[np.bool_]:
    """Which reports have no bit set beyond the first k."""
    if k % 8 == 0:
        return np.ones(len(reports), dtype=bool)
    return as_bytes(reports)[:, -1] >> np.uint8(k % 8) == 0


def bit_counts(reports: NDArray, k: int) -> NDArray[np.int64]:
    """How many reports have each bit set."""
    return kernels.bit_counts(as_bytes(reports), k)


def packed(bits: NDArray, k: int) -> NDArray:
    """Reports from rows of k zeros and ones."""
    reports = np.empty(len(bits), dtype=bits_dtype(k))
    as_bytes(reports)[:] = np.packbits(np.asarray(bits, dtype=np.uint8), axis=1, bitorder="little")
    return reports
