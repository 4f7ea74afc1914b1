"""The frame of a batch: what stands around the reports, and how it is read from strangers.

All numbers are little-endian and unsigned.

    0   4  magic, "DTHW"
    4   2  version of the format, 1
    6   2  flags: bit 0 if the reports were simulated from a seed; all others are 0
    8  32  hash of the plan
    40  4  round, from 0; 0 in a plan without rounds
    44  4  number of sections
    48  4  number of reports in all sections
    52     for each section 12 bytes: number of the part in the plan, width of a report, number of reports
           then the reports of all sections, in the same order

**One way to write it.** Sections rise by part, and within a part by width; none is empty, and neither is a report. A
client writes one section for each part that it answers, with the width that the part has. Other sections can be read
too, so that a report with the wrong width, or about a part that there is not, is rejected alone: but at most
`STRANGE_SECTIONS` more than the plan has parts, so that a batch cannot make a collector look at many sections for few
reports.

**Nothing is believed.** Sections, widths and counts must add up to exactly the bytes that are there; nothing is
allocated by a number that was not compared with the size of the batch.
"""

import struct
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from dither.core.reports import ANOTHER_PLAN
from dither.errors import WireError

MAGIC, VERSION = b"DTHW", 1
MOST_BYTES = 1 << 24
MOST_REPORTS = 1 << 20
STRANGE_SECTIONS = 16

MALFORMED, UNKNOWN_VERSION, ANOTHER_ROUND = "malformed", "unknown version", "another round"
TRUNCATED, TRAILING_BYTES, TOO_LARGE = "truncated", "trailing bytes", "too large"
BATCH_REASONS = (MALFORMED, UNKNOWN_VERSION, ANOTHER_PLAN, ANOTHER_ROUND, TRUNCATED, TRAILING_BYTES, TOO_LARGE)

_HEAD = struct.Struct("<4sHH32sIII")
_SECTION = struct.Struct("<III")
HEAD_BYTES, SECTION_BYTES = _HEAD.size, _SECTION.size
_SIMULATED = 1
_FEWER = "send the reports in several batches"


class FrameSection(NamedTuple):
    """Reports about one part, all of one width."""

    part: int
    width: int
    reports: int

    @property
    def size(self) -> int:
        """How many bytes its reports have together."""
        return self.width * self.reports


_section = partial(tuple.__new__, FrameSection)  # what FrameSection._make does, without a call in Python for each


class Frame(NamedTuple):
    """What a batch says about its reports."""

    plan: bytes
    round: int
    simulated: bool
    sections: tuple[FrameSection, ...]

    @property
    def reports(self) -> int:
        """How many there are."""
        return sum([count for _, _, count in self.sections])

    @property
    def rows(self) -> int:
        """Where the first report begins."""
        return HEAD_BYTES + SECTION_BYTES * len(self.sections)


def frame_bytes(frame: Frame, reports: Iterable[bytes]) -> bytes:
    """A batch: the frame, and the bytes of the reports of its sections.

    >>> batch = frame_bytes(Frame(bytes(32), 0, False, (FrameSection(1, 2, 3),)), [b"aabbcc"])
    >>> len(batch), read_frame(batch).sections
    (70, (FrameSection(part=1, width=2, reports=3),))
    """
    counted = frame.reports
    if counted > MOST_REPORTS:
        raise WireError(TOO_LARGE, f"a batch has at most {MOST_REPORTS:,} reports: {_FEWER}")
    size = frame.rows + sum(section.size for section in frame.sections)
    if size > MOST_BYTES:
        raise WireError(TOO_LARGE, f"a batch has at most {MOST_BYTES:,} bytes: {_FEWER}")
    head = _HEAD.pack(
        MAGIC, VERSION, _SIMULATED * frame.simulated, frame.plan, frame.round, len(frame.sections), counted
    )
    return b"".join((head, *(_SECTION.pack(*section) for section in frame.sections), *reports))


def read_frame(
    data: Any, plan: bytes | None = None, parts: int | None = None, *, most_bytes: int = MOST_BYTES
) -> Frame:
    """The frame of a batch whose bytes fit it; with the hash of a plan, and the number of its parts, of a batch of it.

    `data` is anything with a buffer of bytes. Whatever is no batch raises `WireError`.
    """
    size = len(data)
    if size > most_bytes:
        raise WireError(TOO_LARGE, f"this batch has more than {most_bytes:,} bytes: {_FEWER}")
    if bytes(data[:4]) != MAGIC[: max(size, 1)]:
        raise WireError(MALFORMED, "these bytes are no batch of reports: plan.pack(reports) makes one")
    if size >= 6 and bytes(data[4:6]) != VERSION.to_bytes(2, "little"):
        raise WireError(UNKNOWN_VERSION, f"this batch is not of version {VERSION} of the format, the only one known")
    if size < HEAD_BYTES:
        raise _truncated()
    _, _, flags, hashed, number, count, reports = _HEAD.unpack_from(data)
    if plan not in (None, hashed):
        raise WireError(ANOTHER_PLAN, "this batch was made for another plan: it is read with the plan of that hash")
    if flags not in (0, _SIMULATED):
        raise WireError(MALFORMED, f"this batch has flags that version {VERSION} of the format does not know")
    if reports > MOST_REPORTS:
        raise WireError(TOO_LARGE, f"this batch has more than {MOST_REPORTS:,} reports: {_FEWER}")
    if count > reports or (parts is not None and count > parts + STRANGE_SECTIONS):
        raise WireError(MALFORMED, "this batch has more sections than reports, or many more than its plan has parts")
    if HEAD_BYTES + SECTION_BYTES * count > size:
        raise _truncated()
    table = memoryview(data)[HEAD_BYTES : HEAD_BYTES + SECTION_BYTES * count]
    frame = Frame(hashed, number, flags == _SIMULATED, tuple(map(_section, _SECTION.iter_unpack(table))))
    end, counted, before = frame.rows, 0, (-1, 0)
    for part, width, own in frame.sections:
        if not (width and own) or (part, width) <= before:
            raise WireError(MALFORMED, "the sections of this batch are empty, or not in order")
        before = part, width
        end, counted = end + width * own, counted + own
    if counted != reports:
        raise WireError(MALFORMED, "the sections of this batch do not have as many reports as it says")
    if end > size:
        raise _truncated()
    if end < size:
        raise WireError(TRAILING_BYTES, "this batch goes on behind its last report")
    return frame


def _truncated() -> WireError:
    return WireError(TRUNCATED, "this batch ends before the reports that it announces: send it whole")
