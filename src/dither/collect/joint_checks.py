"""Many small batches checked in one step.

A batch of one report takes as long to check as one of a thousand: what costs is the call, not the reports. Batches that
arrive together are mostly alike: the same plan, round, parts and numbers of reports, so the same bytes in front of
their reports. Such batches are joined into one, which is checked as any other, and the verdicts are handed back to
those that they belong to. What cannot be joined, because its frame is unsound or like no other, is checked alone.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dither.core.reports import REASONS
from dither.errors import WireError
from dither.wire import BatchFormat, CheckedBatch
from dither.wire.frames import HEAD_BYTES, SECTION_BYTES, FrameSection, frame_bytes, read_frame

_FEW = 4  # batches that are not worth joining
_SMALL = 2048  # bytes of a batch that is
_SECTIONS = slice(44, 48)  # where a frame says how many it has


class BatchVerdict(NamedTuple):
    """What was found out about a batch; `joint` holds its reports, perhaps with those of others."""

    joint: CheckedBatch
    accepted: int
    rejected: dict[str, int]


def check_batches(form: BatchFormat, bodies: Sequence[bytes]) -> list[BatchVerdict | WireError]:
    """For each batch the verdicts on its reports, or why it cannot be read; in the same order."""
    found: list[BatchVerdict | WireError | None] = [None] * len(bodies)
    alike: dict[tuple[bytes, int], list[int]] = {}
    if len(bodies) > _FEW:
        for place, body in enumerate(bodies):
            if len(body) <= _SMALL:
                frame = body[: HEAD_BYTES + SECTION_BYTES * int.from_bytes(body[_SECTIONS], "little")]
                alike.setdefault((frame, len(body)), []).append(place)
    for places in alike.values():
        if len(places) > _FEW:
            together = _check_joint(form, [bodies[place] for place in places])
            for place, verdict in zip(places, together, strict=True):
                found[place] = verdict
    return [_alone(form, body) if known is None else known for body, known in zip(bodies, found, strict=True)]


def _alone(form: BatchFormat, body: bytes) -> BatchVerdict | WireError:
    try:
        batch = form.check(body)
    except WireError as error:
        return error
    return BatchVerdict(batch, batch.accepted, batch.rejected)


def _check_joint(form: BatchFormat, bodies: Sequence[bytes]) -> Sequence[BatchVerdict | WireError]:
    """Batches of the same length with the same frame: what is true of the first one's is true of all."""
    try:
        frame = read_frame(bodies[0], bytes.fromhex(form.plan.fingerprint), len(form.names))
        many = len(bodies)
        table = np.frombuffer(b"".join(bodies), dtype=np.uint8).reshape(many, -1)
        blocks, offset = [], frame.rows
        for section in frame.sections:
            blocks.append(table[:, offset : offset + section.size].tobytes())
            offset += section.size
        sections = tuple(FrameSection(part, width, count * many) for part, width, count in frame.sections)
        joint = form.check(frame_bytes(frame._replace(sections=sections), blocks))
    except WireError:  # of all of them; or they are too large together
        return [_alone(form, body) for body in bodies]
    if joint.accepted == joint.reports:
        return [BatchVerdict(joint, joint.accepted // many, {})] * many
    counts, first = np.zeros((many, 1 + len(REASONS)), dtype=np.int64), 0
    for _, _, count in frame.sections:
        codes = joint.verdicts[first : first + count * many].reshape(many, count)
        np.add.at(counts, (np.arange(many)[:, None], codes), 1)
        first += count * many
    return [
        BatchVerdict(joint, fine, {reason: some for reason, some in zip(REASONS, bad, strict=True) if some})
        for fine, *bad in counts.tolist()
    ]
