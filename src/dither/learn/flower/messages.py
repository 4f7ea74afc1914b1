"""What travels: the request of the server, and the report of a device. Both ends read this page, and nothing else.

A request holds one record of arrays (the model) and a config with the number of the round and the *plan*, the
fingerprint of the reporter that is expected. The reply holds one config record under the key `dither`:

    format        "dither report 1"
    dither-plan   the fingerprint of the reporter that made it
    server-round  the round that it answers
    simulated     whether it was made from a seed
    report        the bytes of one report, as the mechanism lays it out

and, only if some are declared, a record `public` with one float for each of them, NaN for what is missing. A reader
takes nothing on trust: every field is checked, and what a reply holds is never quoted.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from numpy.typing import NDArray

from dither.core.checks import as_float, is_whole
from dither.core.mechanism import Mechanism
from dither.core.reports import Reports
from dither.errors import ParameterError, ReportError
from dither.learn.federated.encoders import VectorEncoder

FORMAT = "dither report 1"
KEY, PUBLIC, TRAIN = "dither", "public", "train"
PLAN, ROUND = "dither-plan", "server-round"
COUNTS = ("reports", "refused")  # what the server itself tells about a round


def fingerprint(reporter: VectorEncoder) -> str:
    """A hash of all that both ends must agree on: the mechanism with its integers, and how vectors are clipped.

    >>> from dither.learn import VectorReporter
    >>> one, other = (VectorReporter("Hypercube", d=4, epsilon=1.0, clip=clip) for clip in (1.0, 2.0))
    >>> same = VectorReporter("Hypercube", d=4, epsilon=1.0)
    >>> fingerprint(one) == fingerprint(same), fingerprint(one) == fingerprint(other)
    (True, False)
    """
    if not isinstance(reporter, VectorEncoder):
        raise ParameterError('give a reporter, as in VectorReporter("UnitVector", d=100, epsilon=1.0)')
    return reporter.fingerprint


def write_request(arrays: ArrayRecord, config: ConfigRecord, plan: str, number: int) -> RecordDict:
    """What the server sends: the model, the number of the round, and which reports are expected."""
    return RecordDict({"arrays": arrays, "config": ConfigRecord({**config, ROUND: number, PLAN: plan})})


def read_request(message: Message, plan: str) -> tuple[ArrayRecord, int]:
    """The parameters that came in, and the number of the round. All of it is public, so errors may say so."""
    content = message.content
    arrays, configs = list(content.array_records.values()), list(content.config_records.values())
    told = configs[0] if len(configs) == 1 else {}
    number = told.get(ROUND)
    if len(arrays) != 1 or not is_whole(number):
        raise ParameterError("the server must send one record of arrays and the number of the round: use Debiasing")
    if told.get(PLAN) != plan:
        raise ParameterError("the server expects reports of another reporter: give both ends the same one")
    return arrays[0], number


def write_report(report: Reports, plan: str, number: int) -> ConfigRecord:
    """What a device sends."""
    return ConfigRecord(
        {
            "format": FORMAT,
            PLAN: plan,
            ROUND: number,
            "simulated": bool(report.simulated),
            "report": np.asarray(report).tobytes(),
        }
    )


def read_report(reply: Message, mechanism: Mechanism, plan: str, number: int, simulated: bool) -> NDArray:
    """One report, or an error that says why it is none. What the reply holds is never quoted."""
    if reply.has_error() or not reply.has_content():
        raise ReportError("an error instead of a report")
    found = reply.content.config_records.get(KEY)
    if found is None or found.get("format") != FORMAT:
        raise ReportError("no report of this format (does the client have the mod?)")
    if found.get(PLAN) != plan:
        raise ReportError("made for another reporter")
    if found.get(ROUND) != number:
        raise ReportError("made for another round")
    if found.get("simulated") is not False and not simulated:
        raise ReportError("simulated from a seed, which protects nobody (simulated=True takes them)")
    data = found.get("report")
    if not isinstance(data, bytes) or len(data) != mechanism.dtype.itemsize:
        raise ReportError("of the wrong size")
    row = np.frombuffer(bytearray(data), dtype=mechanism.dtype)
    if not mechanism.valid(row).all():
        raise ReportError("with a field out of range")
    return row


def checked_names(public: Any) -> tuple[str, ...]:
    """Names of public metrics; those of the server's own counts are taken."""
    names: tuple[str, ...] = tuple(public) if isinstance(public, list | tuple | set | frozenset) else ("",)
    if not all(isinstance(name, str) and name for name in names):
        raise ParameterError('public is a list of names of metrics, as in public=["num-examples"]')
    if set(names) & set(COUNTS):
        raise ParameterError(f"a public metric cannot be called {' or '.join(COUNTS)}: the server counts those itself")
    return names


def public_metrics(names: Iterable[str], told: Mapping[str, Any]) -> dict[str, float]:
    """Every name with one float, whether it was told or not."""
    return {name: as_float(told.get(name)) for name in names}


def averaged_metrics(names: Iterable[str], replies: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The mean of each public metric over the devices that sent a finite number; all weigh the same.

    >>> averaged_metrics(["loss"], [{"loss": 1.0, "reports": 1e9}, {"loss": 2.0}, {"loss": float("nan")}])
    {'loss': 1.5}
    """
    rows = list(replies)
    sent = {name: np.array([as_float(row.get(name)) for row in rows]) for name in names}
    finite = {name: numbers[np.isfinite(numbers)] for name, numbers in sent.items()}
    with np.errstate(over="ignore"):  # each is divided before they are added up: few sums are beyond all floats
        return {name: float((numbers / len(numbers)).sum()) for name, numbers in finite.items() if len(numbers)}


class ArrayShapes(NamedTuple):
    """How a record of arrays becomes one vector, and back."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    kinds: tuple[str, ...]

    @classmethod
    def of(cls, record: ArrayRecord) -> "ArrayShapes":
        arrays = {name: array.numpy() for name, array in record.items()}
        for name, array in arrays.items():
            if array.dtype.kind != "f":
                raise ParameterError(
                    f"array {name} holds no floating point numbers: send trainable parameters only (the counters of a "
                    "batch normalisation are none; use a group or layer normalisation)"
                )
        return cls(
            tuple(arrays),
            tuple(array.shape for array in arrays.values()),
            tuple(array.dtype.str for array in arrays.values()),
        )

    @property
    def size(self) -> int:
        return sum(int(np.prod(shape, dtype=int)) for shape in self.shapes)

    def vector(self, record: ArrayRecord) -> NDArray[np.float64]:
        """All numbers in one row."""
        return np.concatenate([array.numpy().reshape(-1).astype(np.float64) for array in record.values()])

    def record(self, vector: NDArray[np.float64]) -> ArrayRecord:
        """The inverse of `vector`, in the types that the arrays had."""
        sizes = [int(np.prod(shape, dtype=int)) for shape in self.shapes]
        parts = np.split(vector, np.cumsum(sizes)[:-1])
        made = (
            part.reshape(shape).astype(kind) for part, shape, kind in zip(parts, self.shapes, self.kinds, strict=True)
        )
        return ArrayRecord({name: Array(part) for name, part in zip(self.names, made, strict=True)})
