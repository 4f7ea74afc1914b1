"""A batch as JSON, for clients that are written by hand: the same content, and either can be made from the other.

    {"format": "dither reports 1",
     "plan": "9c56...",                                 the hash of the plan, 64 hexadecimal digits
     "round": 3,                                        only in a plan with rounds; 0 if left out
     "simulated": true,                                 only if they are; false if left out
     "sections": [{"part": "histogram(job)",            the name of a part, or its number from 0
                   "reports": [[2], [0], "AQ=="]}]}     each report a list of its bytes, or the Base64 of them

Sections may come in any order, and several may be about one part: they are put into the order that a batch has
(`wire.batches`), reports of one part and width in the order in which they stand. A name that the plan has no part of
becomes the number `NO_PART`, so that its reports are rejected, and no others. What is written here has numbers and
Base64, one section for each of the batch: so bytes come back as they were.
"""

import base64
import binascii
from typing import Annotated, Any

import msgspec

from dither.core.reports import ANOTHER_PLAN
from dither.errors import WireError
from dither.wire.frames import (
    MALFORMED,
    MOST_REPORTS,
    TOO_LARGE,
    UNKNOWN_VERSION,
    Frame,
    FrameSection,
    frame_bytes,
)

FORMAT = "dither reports 1"
NO_PART = (1 << 32) - 1

Byte = Annotated[int, msgspec.Meta(ge=0, le=255)]
Number = Annotated[int, msgspec.Meta(ge=0, le=NO_PART)]


class SectionFormat(msgspec.Struct, forbid_unknown_fields=True):
    part: Number | str
    reports: list[str | list[Byte]]


class ReportsFormat(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    format: str
    plan: str
    sections: list[SectionFormat]
    round: Number = 0
    simulated: bool = False


def bytes_of_json(text: bytes | str, fingerprint: str, numbers: dict[str, int], most_bytes: int) -> bytes:
    """The batch that a JSON text describes, for the plan with this hash and these numbers of parts."""
    if len(text) > most_bytes:
        raise WireError(TOO_LARGE, f"this batch has more than {most_bytes:,} bytes: send the reports in several")
    found = _decoded(text)
    if found.format != FORMAT:
        raise WireError(UNKNOWN_VERSION, f'this batch does not have the format "{FORMAT}", the only one known here')
    if found.plan != fingerprint:
        raise WireError(ANOTHER_PLAN, "this batch was made for another plan: it is read with the plan of that hash")
    blocks: dict[tuple[int, int], list[bytes]] = {}
    for section in found.sections:
        part = numbers.get(section.part, NO_PART) if isinstance(section.part, str) else section.part
        for report in section.reports:
            data = bytes(report) if isinstance(report, list) else _from_base64(report)
            if not data:
                raise WireError(MALFORMED, "a report in this batch has no bytes")
            blocks.setdefault((part, len(data)), []).append(data)
    ordered = sorted(blocks.items())
    sections = tuple(FrameSection(part, width, len(reports)) for (part, width), reports in ordered)
    frame = Frame(bytes.fromhex(fingerprint), found.round, found.simulated, sections)
    return frame_bytes(frame, [report for _, reports in ordered for report in reports])


def json_of_frame(frame: Frame, data: Any) -> str:
    """The JSON text of a batch that was read."""
    sections, view = list[SectionFormat](), memoryview(data)
    offset = frame.rows
    for section in frame.sections:
        ends = range(offset, offset + section.size, section.width)
        texts: list[str | list[Byte]] = [base64.b64encode(view[at : at + section.width]).decode() for at in ends]
        sections.append(SectionFormat(section.part, texts))
        offset += section.size
    made = ReportsFormat(FORMAT, frame.plan.hex(), sections, frame.round, frame.simulated)
    return msgspec.json.encode(made).decode()


def _decoded(text: bytes | str) -> ReportsFormat:
    try:
        found = msgspec.json.decode(text, type=ReportsFormat)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):  # what they say may quote a report
        found = None
    if found is None:
        raise WireError(MALFORMED, "this is no batch of reports in JSON: docs/wire-format.md shows one")
    if sum(len(section.reports) for section in found.sections) > MOST_REPORTS:
        raise WireError(TOO_LARGE, f"this batch has more than {MOST_REPORTS:,} reports: send them in several")
    return found


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = None
    if data is None:
        raise WireError(MALFORMED, "a report in this batch is no Base64")
    return data
