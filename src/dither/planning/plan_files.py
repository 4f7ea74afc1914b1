"""A plan as a file: the fields of `plan.json`, what its hash covers, and what is refused (docs/formats.md).

**The hash** is over all fields but those of `BESIDE`, as JSON with sorted keys, without spaces, in ASCII. It keys
seeded streams, the tags of reports and the ledgers of devices: a stored plan keeps its hash for ever or is refused. It
is never migrated to another one, because a device would draw afresh, and spend again.

**What is read** is JSON in the strict sense (no NaN, no name twice), then the types of the fields, then the hash over
what stands there. So a file that is damaged by accident is refused with the name of the field or with its hash before
anything is made of it; a forged one, with a right hash, gets as far as the certificate (`planning.plans`).

**Whole numbers beyond 2^53** of a mechanism are texts (`core.decoding`).
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from dither.core.decoding import MOST_WHOLE, decoded
from dither.errors import ParameterError
from dither.planning.phase_formats import AfterFormat, PhasesFormat
from dither.planning.prediction import PredictionFormat

FORMAT = 1
BESIDE = ("hash", "version", "certificate", "prediction")  # what is stored beside the plan, outside its hash
CHANGED = "this plan was changed after it was written: its hash does not match"
_NO_PLAN = "this is not a plan"
_WRITTEN = "a plan is what plan.to_json() wrote"
_DEEPEST = 24  # lists and objects within each other; the integers of ranges are the deepest, at 6

Count = Annotated[int, msgspec.Meta(ge=1, le=MOST_WHOLE)]


class PartFormat(msgspec.Struct, forbid_unknown_fields=True):
    questions: Annotated[list[str], msgspec.Meta(min_length=1)]
    weight: Count
    mechanism: dict[str, Any]  # its own class knows its fields
    budget: str | None = None  # whose users answer it, where people choose a budget


class BudgetFormat(msgspec.Struct, forbid_unknown_fields=True):
    epsilon: float
    reported: Count
    regions: dict[str, tuple[float, float]] = {}  # of numeric attributes, where its users' numbers lie


class CertificateFormat(msgspec.Struct, forbid_unknown_fields=True):
    epsilon: float
    delta: float
    established: Literal["exact", "bound"]


class PlanFormat(msgspec.Struct, forbid_unknown_fields=True):
    format: int
    schema: dict[str, dict[str, Any]]
    epsilon: float
    delta: float
    users: Count
    reported: Count
    parts: Annotated[list[PartFormat], msgspec.Meta(min_length=1)]
    hash: str
    prediction: PredictionFormat
    derived: list[str] = []  # left out if there are none, and so is the next one: a plan without them has no other hash
    conditions: dict[str, dict[str, list[Any]]] = {}
    version: str | None = None  # at first plans were written without this one and the next
    certificate: CertificateFormat | None = None
    schedule: dict[str, Any] | None = None  # of plans that ask in several rounds, and of no others
    crowd: dict[str, Any] | None = None  # of plans that count on a shuffler
    groups: list[Count] = []  # of plans with public attributes: the expected users of each combination of their values
    budgets: dict[str, BudgetFormat] = {}  # of plans in which people choose one
    phases: PhasesFormat | None = None  # of the first plan of several phases
    after: AfterFormat | None = None  # of a later one: the plan before, and the digest of its tally


def to_text(own: Mapping[str, Any], beside: Mapping[str, Any]) -> str:
    """A plan for a file: what its hash covers, and what stands beside."""
    return json.dumps({**own, **beside}, indent=1)


def from_text(text: str) -> PlanFormat:
    """The fields of a stored plan, whose hash is right; what they mean is checked by whoever makes a plan of them."""
    stored = _parsed(text)
    number = stored.get("format")
    if type(number) is not int or number < FORMAT:
        raise ParameterError(f"{_NO_PLAN}: its format is unknown; {_WRITTEN}")
    if number > FORMAT:
        raise ParameterError("this plan was written by a newer version of dither; upgrade to read it")
    found = decoded(stored, PlanFormat, _NO_PLAN)
    if digest({name: value for name, value in stored.items() if name not in BESIDE}) != found.hash:
        raise ParameterError(CHANGED)
    return found


def _parsed(text: str | bytes) -> dict[str, Any]:
    """Strict JSON: msgspec refuses NaN, numbers beyond all floats and half surrogate pairs, but not a name twice."""
    try:
        msgspec.json.decode(text, type=dict)
        stored = json.loads(text, object_pairs_hook=_unique)
        fine = "format" in stored and _depth(stored) <= _DEEPEST
    except ParameterError:
        raise
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        fine, stored = False, {}
    if not fine:
        raise ParameterError(f"{_NO_PLAN}: {_WRITTEN}")
    return stored


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ParameterError(f"{_NO_PLAN}: {name} is there twice; {_WRITTEN}")
    return found


def _depth(stored: Any) -> int:
    """How deep lists and objects are nested: where it is little, whoever walks through them needs no other guard."""
    inner = stored.values() if isinstance(stored, dict) else stored if isinstance(stored, list) else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)


def digest(own: Mapping[str, Any]) -> str:
    """The hash of a plan, in hexadecimal."""
    return hashlib.sha256(json.dumps(own, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
