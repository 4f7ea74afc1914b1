"""The examples that the contract is checked on, what kind of mechanism each is, and values for it.

Every mechanism in the registry brings `examples`, small enough that all reports can be listed. What they have in common
is asked of the objects, never of names: a domain, a reading, parts.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

import dither
from dither.core.ball_domain import Ball
from dither.core.domains import Records, UnitInterval
from dither.core.hashed_channel import HashedChannel
from dither.core.mechanism import Mechanism
from dither.core.sparse_domain import Sparse
from dither.mechanisms.memoized import Memoized
from dither.mechanisms.multi_attribute import MultiAttribute
from dither.mechanisms.personalised import RECORD, Choices

LARGEST_LISTED = 1 << 16


def examples() -> list[Mechanism]:
    """Every registered mechanism with each of its example parameters."""
    return [cls(**example) for cls in dither.registry.values() for example in cls.examples]


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


def as_values(mechanism: Mechanism, column: Any) -> Any:
    """A column as the mechanism takes it: for records, the same value in every dimension; of keys, the first one's."""
    domain = mechanism.reading.domain
    if isinstance(domain, Choices):
        if isinstance(column, np.ndarray) and column.dtype.kind in "iuf":
            rows = np.zeros(len(column), dtype=RECORD)
            rows["value"] = column
            return rows
        return {"value": column, "group": np.zeros(len(column), dtype=np.uint8)}
    if isinstance(domain, Sparse):
        return [{0: value} for value in column]
    if not isinstance(domain, Records | Ball):
        return column
    return (
        np.repeat(column[:, None], domain.d, axis=1)
        if isinstance(column, np.ndarray)
        else [[value] * domain.d for value in column]
    )


def many(value: Any, rows: int) -> NDArray:
    """The same value for every row."""
    return np.repeat(np.asarray(value)[None], rows, axis=0)


def composed(mechanism: Mechanism) -> bool:
    """Whether a report consists of several reports."""
    return isinstance(mechanism.reading, MultiAttribute)


def parts_of(mechanism: Mechanism) -> tuple[Mechanism, ...]:
    """The mechanisms that a mechanism is made of; empty if it stands for itself."""
    if isinstance(mechanism, dither.Histogram):
        return (mechanism.entry,)
    return tuple(getattr(mechanism.reading, "parts", ()))


def with_epsilon(mechanism: Mechanism, epsilon: float, **changes: Any) -> Mechanism:
    """The same mechanism with another budget, fitted again."""
    stored = {key: value for key, value in mechanism.to_dict().items() if key not in ("mechanism", "weights")}
    if isinstance(mechanism, dither.Personalised):
        scale = epsilon / mechanism.epsilon
        groups = [(group.name, max(group.epsilon * scale, 1e-9), group.low, group.high) for group in mechanism.groups]
        return dither.Personalised(mechanism.base, groups)
    if isinstance(mechanism, Memoized):
        changes = {"first": epsilon * mechanism.first / mechanism.epsilon, **changes}
    return type(mechanism)(**{**stored, "epsilon": epsilon, **changes})


def component_of(mechanism: Mechanism) -> HashedChannel | None:
    """The channel of hashed items under one hash function, if the mechanism has one."""
    component = getattr(mechanism.channel(), "component", None)
    return component if isinstance(component, HashedChannel) else None


def sampled_inputs(mechanism: Mechanism) -> NDArray:
    """All inputs of the channel if they are few, else some; and for numbers also one between lattice points."""
    inputs, domain = mechanism.inputs(), mechanism.reading.domain
    if isinstance(domain, UnitInterval):
        return np.append(inputs[np.unique([0, len(inputs) // 2, -1])], 0.3)
    if isinstance(domain, Choices):
        off = inputs[:1].copy()
        off["value"] = domain.groups[0].centre + 0.3 * domain.groups[0].half
        return np.concatenate([inputs[np.unique([0, len(inputs) // 3, -1])], off])
    if isinstance(domain, Records):
        between = [0.3 - 0.1 * j if isinstance(domain.of(j), UnitInterval) else 1 for j in range(domain.d)]
        return np.vstack([inputs[np.unique([0, len(inputs) // 3, -1])], between])
    if isinstance(domain, Sparse):
        return np.append(inputs[np.unique([0, 1, len(inputs) // 2, -1])], domain.check([{0: 0.3}]))
    if isinstance(domain, Ball):
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
