"""Results of single measurements, kept as they come, so that an interrupted run goes on where it stopped.

One file for each experiment, a line of JSON for each measurement, which is appended as soon as it is known. A line that
was cut short by a crash is not counted. Lines are found by the key of what they depend on (`fingerprints`); those that
nothing asks for any more stay where they are and do no harm.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from dither.core.atomic_write import write_errors
from dither.reproduce.measured import Number


class KeptMeasurement(NamedTuple):
    """What one measurement yielded, and the seconds of a processor that it took."""

    numbers: tuple[Number, ...]
    seconds: float


@dataclass(frozen=True)
class ResultsCache:
    """A folder of results."""

    folder: Path

    def read(self, experiment: str) -> dict[str, KeptMeasurement]:
        """All results of an experiment, by key."""
        return dict(self._lines(self.folder / f"{experiment}.jsonl"))

    def append(self, experiment: str, key: str, result: KeptMeasurement) -> None:
        """One more, on disk when this returns."""
        text = json.dumps([key, result.seconds, [[dict(where), value] for where, value in result.numbers]])
        path = self.folder / f"{experiment}.jsonl"
        with write_errors(path):
            self.folder.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                if file.tell() and not _ends_whole(path):
                    file.write(b"\n")  # after a line that was cut short
                file.write(text.encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())

    @staticmethod
    def _lines(path: Path) -> Iterator[tuple[str, KeptMeasurement]]:
        if not path.exists():
            return
        for line in path.read_bytes().splitlines():
            try:
                key, seconds, numbers = json.loads(line)
            except ValueError:
                continue
            yield key, KeptMeasurement(tuple(Number(where, value) for where, value in numbers), seconds)


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
