"""Registries: things that upper floors define, looked up by name from below.

Imports go down only. So a noun that offers what an upper floor adds (`estimate.refine("shrink")`) must not import it,
nor must the reader of a file that names what an upper floor made (`"mechanism": "HDG"` in a stored plan): they ask a
registry. It knows *homes*, from each name to the module that holds it, as text; the module is imported when its name is
first asked for. Text is not an import: a floor that knows names can be read and tested without what they name.

The homes need no table of their own, since `declared` reads them from the stub (`__init__.pyi`) of the package that
makes the names public. What goes wrong: a stub can name what is not there. A test asks for every name.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from dither.core.checks import as_text
from dither.errors import ParameterError

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class Registry(Mapping[str, T]):
    """Things of one kind by their names, each imported from its home when it is first asked for.

    >>> roots = Registry("root", {"sqrt": "math", "isqrt": "math"})
    >>> roots["sqrt"](9.0), roots.find("ISQRT")(10), "cbrt" in roots
    (3.0, 3, False)
    """

    kind: str
    homes: Mapping[str, str]

    def __getitem__(self, name: str) -> T:
        return getattr(import_module(self.homes[name]), name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.homes)

    def __len__(self) -> int:
        return len(self.homes)

    def __contains__(self, name: object) -> bool:
        return name in self.homes

    def __repr__(self) -> str:
        return f"registry of {len(self)} {self.kind}s: {', '.join(self)}"

    def find(self, name: str) -> T:
        """The one with this name in any case, or an error that lists the names."""
        word = as_text(name).lower()
        for known in self:
            if known.lower() == word:
                return self[known]
        raise ParameterError(f"no {self.kind} has this name; there are {', '.join(self)}")


def declared(package: str) -> dict[str, str]:
    """The names that the stub of a package takes from its modules, and these modules; nothing is imported.

    >>> declared("dither")["GRR"], declared("dither.mechanisms")["GRR"]
    ('dither.mechanisms', 'dither.mechanisms.grr')
    """
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ImportError(f"there is no package {package}")
    return {
        alias.name: f"{package}.{line.module}"
        for line in ast.parse(Path(spec.origin).with_suffix(".pyi").read_text("utf-8")).body
        if isinstance(line, ast.ImportFrom) and line.module
        for alias in line.names
    }
