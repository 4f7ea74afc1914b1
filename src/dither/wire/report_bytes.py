"""The bytes of a report: its fields one after another without gaps, little-endian.

How many there are, and what they mean, is fixed by the mechanism (docs/formats.md, "Reports"): so a report needs no
field names, no lengths and no padding, and many of them are one block of memory that is read in one step. Files
(`engines.report_rows`) and batches (`wire.batches`) hold the same bytes; these functions are the only ones that make
and read them.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.mechanism import Mechanism
from dither.core.reports import Reports, maker_of
from dither.errors import ReportError


def portable_dtype(mechanism: Mechanism) -> np.dtype:
    """The fields of a report in the byte order of files and wires, whatever that of the machine is.

    >>> from dither import LocalHash
    >>> portable_dtype(LocalHash(k=100, epsilon=1.0)).itemsize
    9
    """
    return mechanism.dtype.newbyteorder("<")


def report_bytes(mechanism: Mechanism, reports: NDArray[Any]) -> bytes:
    """The bytes of reports, one after another.

    >>> from dither import GRR
    >>> mechanism = GRR(k=1000, epsilon=1.0)
    >>> report_bytes(mechanism, np.array([(1,), (999,)], dtype=mechanism.dtype)).hex(" ")
    '01 00 e7 03'
    """
    return np.asarray(reports).astype(portable_dtype(mechanism), copy=False).tobytes()


def reports_of_bytes(mechanism: Mechanism, data: Any, count: int, offset: int = 0) -> NDArray[Any]:
    """So many reports that begin at `offset`: the memory of `data` itself, where the machine is little-endian."""
    rows = np.frombuffer(data, portable_dtype(mechanism), count, offset)
    return rows.astype(mechanism.dtype, copy=False)


def own_reports(reports: Any, name: str, tag: str, mechanism: Mechanism) -> Reports:
    """The reports of a part. What is of another plan must not be packed as one of this."""
    some: Any = reports.get(name) if isinstance(reports, Mapping) else None
    if maker_of(some) == tag and (some.dtype, some.ndim) == (mechanism.dtype, 1):
        return some
    raise ReportError("these are not reports of this plan: pack what plan.randomize or plan.report made")
