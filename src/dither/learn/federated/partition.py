"""Who has which records: simulated devices over one table, and a split in which each sees few classes."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dither.core.checks import checked_count
from dither.core.randomness import Stream
from dither.errors import DomainError, ParameterError

Members = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Devices:
    """Simulated devices: all records in one table, and for each device the rows that are its own.

    >>> import numpy as np
    >>> devices = Devices(np.zeros((6, 2), dtype=np.float32), np.array([0, 0, 1, 1, 0, 1]), [[0, 1, 2], [3, 4, 5]])
    >>> len(devices), devices.fewest
    (2, 3)
    """

    inputs: Any
    labels: Any
    members: Any  # row numbers of each device; kept as a table, filled up with zeros
    sizes: NDArray[np.int64] = field(init=False, repr=False)
    _in_order: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        inputs = torch.as_tensor(self.inputs)
        labels = whole_labels(self.labels)
        if inputs.ndim < 2 or len(inputs) != len(labels):
            raise DomainError("devices need one row of inputs and one label for each record")
        members = [np.asarray(rows, dtype=np.int64).reshape(-1) for rows in self.members]
        if not members or min(map(len, members)) == 0:
            raise ParameterError("every device needs at least one record: leave devices without any out")
        if min(int(rows.min()) for rows in members) < 0 or max(int(rows.max()) for rows in members) >= len(inputs):
            raise ParameterError("members are row numbers of the inputs, from 0")
        sizes = np.array([len(rows) for rows in members])
        table = np.zeros((len(members), sizes.max()), dtype=np.int64)
        table[np.arange(sizes.max()) < sizes[:, None]] = np.concatenate(members)
        in_order = len(sizes) * sizes.max() == len(inputs) and (table.reshape(-1) == np.arange(len(inputs))).all()
        floats = inputs if inputs.is_floating_point() else inputs.to(torch.get_default_dtype())
        frozen = {"inputs": floats, "labels": labels, "members": table, "sizes": sizes, "_in_order": bool(in_order)}
        for name, value in frozen.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.members)

    @property
    def fewest(self) -> int:
        """How many records the smallest device has."""
        return int(self.sizes.min())

    def sorted(self) -> "Devices":
        """The same devices, with the records of each side by side: reading them is faster then."""
        rows = np.concatenate([self.members[k][:size] for k, size in enumerate(self.sizes)])
        edges = np.concatenate([[0], np.cumsum(self.sizes)])
        own = [np.arange(first, last) for first, last in pairwise(edges.tolist())]
        return Devices(self.inputs[torch.from_numpy(rows)], self.labels[torch.from_numpy(rows)], own)

    def records(self, who: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Inputs (devices, records, ...) and labels of some devices; rows beyond a device's records mean nothing."""
        width = self.members.shape[1]
        if self._in_order and len(who) and (who == np.arange(who[0], who[0] + len(who))).all():
            rows: Any = slice(int(who[0]) * width, (int(who[0]) + len(who)) * width)  # a view, not a copy
        else:
            rows = torch.from_numpy(np.asarray(self.members)[who].reshape(-1))
        inputs, labels = self.inputs[rows], self.labels[rows]
        return inputs.reshape(len(who), width, *inputs.shape[1:]), labels.reshape(len(who), width)


def whole_labels(labels: Any) -> Tensor:
    """Labels as whole numbers; what they may be at most, the model says."""
    found = torch.as_tensor(labels)
    if found.ndim != 1 or found.is_floating_point() or found.is_complex():
        raise DomainError("labels must be one whole number for each record, from 0")
    return found.to(torch.int64)


def labels_of(devices: Devices, who: NDArray[np.int64]) -> Tensor:
    """All labels of these devices, without what fills up short rows."""
    held = np.arange(devices.members.shape[1]) < devices.sizes[who][:, None]
    return devices.labels[torch.from_numpy(np.asarray(devices.members)[who][held])]


def by_class(labels: Any, devices: int, classes: int = 2, seed: int | None = None) -> list[Members]:
    """The rows of each device, so that a device has records of only so many classes (001 section 6.3.1).

    The records of each class are cut into shards of equal size, and every device gets `classes` shards, of different
    classes wherever that is possible. What is left over when shards are cut is left out.

    >>> rows = by_class(np.repeat(np.arange(10), 60), devices=20, classes=2, seed=1)
    >>> len(rows), {len(own) for own in rows}
    (20, {30})
    """
    found = whole_labels(labels).numpy()
    devices, classes = checked_count("devices", devices, 1), checked_count("classes", classes, 1)
    kinds, counts = np.unique(found, return_counts=True)
    if classes > len(kinds):
        raise ParameterError(f"there are {len(kinds)} classes: a device cannot have records of more")
    stream = Stream.secure() if seed is None else Stream.seeded(seed, "by class")
    size, shards = _shards(counts, devices * classes)
    order = stream.order(len(found))
    pieces, owners = [], []
    for kind, number in zip(kinds, shards, strict=True):
        own = order[found[order] == kind]
        pieces += [own[place * size : (place + 1) * size] for place in range(number)]
        owners += [int(kind)] * number
    dealt = stream.spawn("deal").order(len(pieces)).reshape(devices, classes)
    _apart(dealt, np.array(owners))
    return [np.concatenate([pieces[shard] for shard in own]) for own in dealt]


def _apart(dealt: Members, kinds: Members) -> None:
    """Swap shards between devices until none has two of a class, or no swap helps."""
    for one in range(len(dealt)):
        for place in range(dealt.shape[1]):
            mine = kinds[dealt[one]]
            if (mine == mine[place]).sum() < 2:
                continue
            theirs = kinds[dealt]
            fits = (theirs[:, :, None] != mine[None, None, :]).all(axis=2) & (theirs != mine[place]).all(axis=1)[
                :, None
            ]
            where = np.argwhere(fits)
            if len(where):
                other, slot = where[(one * 7919) % len(where)]  # spread, rather than always the first
                dealt[one, place], dealt[other, slot] = dealt[other, slot], dealt[one, place]


def _shards(counts: NDArray[np.int64], needed: int) -> tuple[int, list[int]]:
    """The largest shard of which there are enough, and how many of each class are taken: as even as can be."""
    size = int(counts.sum()) // needed
    while size > 0 and int((counts // size).sum()) < needed:
        size -= 1
    if size == 0:
        raise ParameterError("there are fewer records than shards: ask for fewer devices")
    shards = counts // size
    while shards.sum() > needed:
        shards[shards.argmax()] -= 1
    return size, [int(number) for number in shards]
