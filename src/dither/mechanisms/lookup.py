"""Mechanisms by name: the registry of all there are, and a stored mechanism read back.

The registry holds the names that the package's own stub (`dither/__init__.pyi`) takes from the rooms below, so those of
`ranges`, a floor above this one, too: names are text, and a module is imported when its mechanism is first asked for.
The command line, the documentation, the benchmarks, the audit and the contract tests all iterate over it.
"""

from collections.abc import Mapping
from typing import Any

from dither.core.mechanism import Mechanism
from dither.core.registry import Registry, declared

_ROOMS = ("dither.mechanisms", "dither.ranges")

registry: Registry[type[Mechanism]] = Registry(
    "mechanism", {name: room for name, room in declared("dither").items() if room in _ROOMS}
)


def load(stored: Mapping[str, Any]) -> Mechanism:
    """A mechanism from its `to_dict`: the stored integers are kept, and certified again.

    >>> load(registry["GRR"](k=3, epsilon=1.0).to_dict())
    GRR(k=3, epsilon=1.0, delta=0.0)
    """
    return registry.find(str(stored.get("mechanism", ""))).from_dict(stored)
