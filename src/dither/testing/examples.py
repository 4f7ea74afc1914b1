"""The examples that the contract is checked on, what kind of mechanism each is, and values for it.

Every mechanism in the registry brings `examples`, small enough that all reports can be listed. What they have in common
is asked of the objects, never of names: a domain, a reading, parts.
"""

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dither.core.domains import BALL, GROUPS, NUMBERS, RECORDS, SPARSE, WHOLE_NUMBERS, WORDS
from dither.core.hashed_channel import HashedChannel
from dither.core.mechanism import Mechanism, R
from dither.core.structure import BUCKETS
from dither.core.tally import Tally
from dither.mechanisms.lookup import registry

LARGEST_LISTED = 1 << 16


def examples() -> list[Mechanism]:
    """Every registered mechanism with each of its example parameters."""
    return [cls(**example) for cls in registry.values() for example in cls.examples]


def label(mechanism: Mechanism) -> str:
    """A name for the test report."""
    return repr(mechanism).replace(" ", "")


def messages(error: BaseException | None) -> str:
    """Everything that an error says, with what it was raised from."""
    said = ""
    while error is not None:
        said += str(error) + repr(error)
        error = error.__context__
    return said


def as_values(mechanism: Mechanism, column: Any) -> NDArray | list[Any] | dict[str, Any]:
    """A column as the mechanism takes it: for records, the same value in every dimension; of keys, the first one's."""
    domain: Any = mechanism.reading.domain
    if domain.kind == GROUPS:
        return {"value": column, "group": np.zeros(len(column), dtype=np.uint8)}
    if domain.kind == SPARSE:
        return [{0: value} for value in column]
    if domain.kind == WORDS:
        return [b"" if _is_zero(value) else value for value in column]
    if domain.kind not in (RECORDS, WHOLE_NUMBERS, BALL):
        return column
    return (
        np.repeat(column[:, None], domain.d, axis=1)
        if isinstance(column, np.ndarray)
        else [[value] * domain.d for value in column]
    )


def _is_zero(value: Any) -> bool:
    return isinstance(value, int | np.integer) and int(value) == 0


def read_expected(mechanism: Mechanism[R], tally: Tally) -> R:
    """What a mechanism reads off expected counts, or off those of single outcomes: no whole reports add up to them."""
    return mechanism.reading.estimate(tally, mechanism.guarantee, repr(mechanism))


def many(value: Any, rows: int) -> NDArray:
    """The same value for every row."""
    return np.repeat(np.asarray(value)[None], rows, axis=0)


def composed(mechanism: Mechanism) -> bool:
    """Whether a report consists of several reports."""
    return bool(mechanism.components) and mechanism.reading.domain.kind == RECORDS


def several_reports(mechanism: Mechanism) -> bool:
    """Whether a report holds reports of other mechanisms, or several of one law about the same value."""
    return bool(mechanism.components) or len(mechanism.channel().repeats) > 1


def with_epsilon(mechanism: Mechanism, epsilon: float, **changes: Any) -> Mechanism:
    """The same mechanism with another budget, fitted again."""
    stored = {key: value for key, value in mechanism.to_dict().items() if key not in ("mechanism", "weights")}
    scale = epsilon / mechanism.epsilon
    if mechanism.takes == GROUPS:  # each has a budget of its own
        groups = [(name, max(own * scale, 1e-9), low, high) for name, own, low, high in stored["groups"]]
        stored, changes = {**stored, "groups": groups, "epsilon": None}, {"epsilon": None}
    if mechanism.remembers:
        changes = {"first": mechanism.report_epsilon * scale, **changes}
    return type(mechanism)(**{**stored, "epsilon": epsilon, **changes})


def component_of(mechanism: Mechanism) -> HashedChannel | None:
    """The channel of hashed items under one hash function, if the mechanism has one."""
    return cast(HashedChannel, mechanism.channel().worst_component) if mechanism.structure == BUCKETS else None


def sampled_inputs(mechanism: Mechanism) -> NDArray:
    """All inputs of the channel if they are few, else some; and for numbers also one between lattice points."""
    inputs, domain = mechanism.inputs(), cast(Any, mechanism.reading.domain)
    if domain.kind == NUMBERS:
        return np.append(inputs[np.unique([0, len(inputs) // 2, -1])], 0.3)
    if domain.kind == GROUPS:
        off = inputs[:1].copy()
        off["value"] = domain.groups[0].centre + 0.3 * domain.groups[0].half
        return np.concatenate([inputs[np.unique([0, len(inputs) // 3, -1])], off])
    if domain.kind in (RECORDS, WHOLE_NUMBERS):
        between = [0.3 - 0.1 * j if domain.of(j).kind == NUMBERS else 1 for j in range(domain.d)]
        return np.vstack([inputs[np.unique([0, len(inputs) // 3, -1])], between])
    if domain.kind == SPARSE:
        return np.append(inputs[np.unique([0, 1, len(inputs) // 2, -1])], domain.check([{0: 0.3}]))
    if domain.kind == BALL:
        return np.vstack([inputs[:2], 0.3 * inputs[-2:-1], 0.0 * inputs[:1], domain.points(2 * domain.d + 1)[-1:]])
    return inputs


def sparse_inputs(mechanism: Any) -> list[dict[int, float]]:
    """No key, one (dummies fill up), s of both signs, numbers to round; with `sample` also more than s."""
    d, s = mechanism.d, mechanism.s
    mixed = {key: 1.0 - 2 * (key % 2) for key in range(s)}
    found: list[dict[int, float]] = [{}, {d - 1: -1.0}, mixed, {**mixed, 0: 0.3}]
    if mechanism.sample and s < d:
        found += [dict.fromkeys(range(s + 1), 1.0), {key: (-1.0) ** key for key in range(d)}]
    return found


def as_bytes(reports: NDArray) -> list[bytes]:
    """Each report as bytes."""
    return np.ascontiguousarray(reports).view(f"V{reports.dtype.itemsize}").tolist()
