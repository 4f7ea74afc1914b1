"""Mechanisms by name: the registry of all there are, and a stored mechanism read back.

The registry holds the names that the package's own stub (`dither/__init__.pyi`) takes from the rooms below, so those of
`ranges`, a floor above this one, too: names are text, and a module is imported when its mechanism is first asked for.
The planner, the command line, the documentation, the benchmarks, the audit and the contract tests all iterate over it.

**Anyone's mechanism.** `registry.register` adds a class of another package, and so does an entry point of the group
`dither.mechanisms`, for which nobody has to import anything: installed packages are looked at once, when a name is
asked for that is not dither's own, or when all names are. What is wrong with one of them is said in a warning, and it
is left out; dither works without it. Where several could be meant, dither's own names come first, in the order of the
stub, and then the others in the order in which they were found.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from importlib.metadata import entry_points
from threading import RLock
from typing import Any, TypeVar

from dither.core.checks import as_text
from dither.core.domains import KINDS
from dither.core.mechanism import Mechanism
from dither.core.registry import Registry, declared
from dither.errors import ParameterError

GROUP = "dither.mechanisms"
_ROOMS = ("dither.mechanisms", "dither.ranges")
_BUDGET = ("epsilon", "delta", "weights")

M = TypeVar("M", bound=type[Mechanism[Any]])


@dataclass(frozen=True, eq=False, repr=False)
class MechanismRegistry(Registry[type[Mechanism[Any]]]):
    """The mechanisms of dither, those that were registered, and those of installed packages."""

    _registered: dict[str, type[Mechanism[Any]]] = field(default_factory=dict)
    _unread: list[str] = field(default_factory=lambda: [GROUP])
    _lock: RLock = field(default_factory=RLock)

    def register(self, mechanism: M) -> M:
        """Add a mechanism of another package; as a decorator it stands above `@dataclass(frozen=True)`.

        A name that another class has is refused, and so is a class that does not declare what it is. The same class
        may be registered again, also where its definition ran once more.
        """
        complaint = _complaint(mechanism)
        if complaint:
            raise ParameterError(f"this mechanism cannot be registered: {complaint}")
        name = mechanism.__name__
        with self._lock:
            if name.lower() in {own.lower() for own in self.homes}:
                if self.homes.get(name) and self[name] is mechanism:
                    return mechanism
                raise ParameterError(f"dither has a mechanism of the name {name}: give yours another one")
            taken = next((other for other in self._registered.values() if other.__name__.lower() == name.lower()), None)
            if taken is not None and _origin(taken) != _origin(mechanism):
                raise ParameterError(
                    f"the name {name} is taken by a mechanism of {taken.__module__}: give this one another name"
                )
            self._registered[name] = mechanism
        return mechanism

    @contextmanager
    def restored(self) -> Iterator[None]:
        """What is registered inside is forgotten at the end: for tests that define mechanisms of their own."""
        before = dict(self._others())
        try:
            yield
        finally:
            with self._lock:
                self._registered.clear()
                self._registered.update(before)

    def find(self, name: str) -> type[Mechanism[Any]]:
        """The one with this name in any case, or an error that lists the names."""
        for known in (*self.homes, *self._registered):
            if known.lower() == as_text(name).lower():
                return self[known]
        return super().find(name)

    def __getitem__(self, name: str) -> type[Mechanism[Any]]:
        return super().__getitem__(name) if name in self.homes else self._others()[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self.homes, *self._others()])

    def __len__(self) -> int:
        return len(self.homes) + len(self._others())

    def __contains__(self, name: object) -> bool:
        return name in self.homes or name in self._others()

    def _others(self) -> dict[str, type[Mechanism[Any]]]:
        """Those of other packages, installed ones among them: these are looked for once."""
        with self._lock:
            while self._unread:  # taken off first: a module that is loaded may register its mechanism, and come by
                for entry in entry_points(group=self._unread.pop()):
                    try:
                        self.register(entry.load())
                    except Exception as error:  # whatever another package does, dither works without it
                        package = entry.dist.name if entry.dist else "an installed package"
                        warnings.warn(f"mechanism {entry.name} of {package} is left out: {error}", stacklevel=4)
            return self._registered


def _origin(mechanism: type) -> tuple[str, str]:
    return mechanism.__module__, mechanism.__qualname__


def _complaint(mechanism: Any) -> str:
    """What a class lacks that everybody relies on; empty if it lacks nothing."""
    if not isinstance(mechanism, type) or not issubclass(mechanism, Mechanism):
        return "it must be a class that derives from dither.Mechanism"
    name = mechanism.__name__
    if not is_dataclass(mechanism) or not mechanism.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return f"{name} must be a frozen dataclass, with register above @dataclass(frozen=True)"
    lacking = {*mechanism.__abstractmethods__} | ({"reading"} if mechanism.reading is Mechanism.reading else set())
    if mechanism.law is Mechanism.law and mechanism._fit is Mechanism._fit:
        lacking.add("law, or _fit")
    if lacking:
        return f"{name} lacks {', '.join(sorted(lacking))}"
    known = {each.name: each for each in fields(mechanism)}
    if not {"epsilon", "weights"} <= set(known):
        return f"{name} must have the fields epsilon and weights"
    if not mechanism.family:
        return f'{name} must declare a family, as in family = "categorical"'
    if not mechanism.examples:
        return f'{name} must declare examples, small ones, as in examples = ({{"k": 3, "epsilon": 1.0}},)'
    if not mechanism.__doc__ or mechanism.__doc__.startswith(f"{name}("):
        return f"{name} must say in the first line of its docstring what it does"
    if mechanism.takes not in KINDS:
        return f"{name} must declare what it takes, one of {', '.join(KINDS)}"
    asked_for = {own for own, each in known.items() if each.default is MISSING and each.default_factory is MISSING}
    unknown = sorted(asked_for - {*KINDS[mechanism.takes], *_BUDGET})
    inherited = mechanism.candidates.__func__ is Mechanism.candidates.__func__  # type: ignore[attr-defined]
    if mechanism.planned and inherited and unknown:
        return (
            f"the planner does not know what {name} needs as {', '.join(unknown)}: give defaults, define candidates, "
            "or declare planned = False"
        )
    return ""


registry = MechanismRegistry("mechanism", {name: room for name, room in declared("dither").items() if room in _ROOMS})


def load(stored: Mapping[str, Any]) -> Mechanism[Any]:
    """A mechanism from its `to_dict`: the stored integers are kept, and certified again.

    >>> load(registry["GRR"](k=3, epsilon=1.0).to_dict())
    GRR(k=3, epsilon=1.0, delta=0.0)
    """
    if not isinstance(stored, Mapping):
        raise ParameterError("give a description of a mechanism, as mechanism.to_dict() writes it")
    return registry.find(stored.get("mechanism", "")).from_dict(stored)
