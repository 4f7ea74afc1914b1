"""What a result depends on, in one hash: the code that measured it, its setting, its data and its mechanisms.

Results of hours must not be void at each release, and must be void when what they show was changed. So the version of
dither does not count; the code of the paper's own functions does, as far as the measurement reaches it: their syntax
tree without comments and documentation, and the constants that they name. Mechanisms count by their own fingerprints,
which hold the integers that they sample with.
"""

import ast
import dataclasses
import functools
import hashlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from dither.reproduce.experiments import Experiment
from dither.reproduce.measured import Coordinates

PACKAGE = "dither_papers"  # descriptions of papers are loaded as modules below this name


def measurement_key(experiment: Experiment, setting: Coordinates, size: Coordinates) -> str:
    """What the results of all measurements at a setting depend on."""
    asked = {**setting, **size}
    parts = [
        experiment.name,
        repr(sorted(asked.items())),
        code(experiment.measure),
        *(data.digest() for data in experiment.data(asked)),
        *(mechanism.fingerprint for mechanism in experiment.mechanisms(asked)),
    ]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()


@functools.lru_cache(maxsize=256)
def code(function: Callable[..., Any]) -> str:
    """A hash of a function of a paper, and of all that it reaches in the papers' modules."""
    pieces: dict[str, str] = {}
    waiting: list[Any] = [function]
    while waiting:
        thing = inspect.unwrap(waiting.pop())
        name = f"{thing.__module__}.{thing.__qualname__}"
        if name not in pieces:
            tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
            pieces[name] = ast.dump(_bare(tree))
            for used, value in _used(tree, vars(sys.modules[thing.__module__])):
                constant = _constant(value, waiting)
                if constant:
                    pieces[f"{thing.__module__}: {used}"] = constant
    text = "\n".join(f"{name} {piece}" for name, piece in sorted(pieces.items()))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _used(tree: ast.AST, names: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """What a piece of code names: globals of its module, and what it takes from other modules of papers."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            found.append((node.id, names[node.id]))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = names.get(node.value.id)
            if isinstance(owner, ModuleType) and _ours(owner.__name__) and hasattr(owner, node.attr):
                found.append((f"{node.value.id}.{node.attr}", vars(owner).get(node.attr)))
    return found


def _constant(value: Any, waiting: list[Any]) -> str:
    """A constant as text; functions and classes of papers, in it or alone, go to those that wait."""
    if isinstance(value, functools.partial):
        return _constant((value.func, value.args, value.keywords), waiting)
    value = inspect.unwrap(value)  # a function with a cache, too
    if isinstance(value, FunctionType | type):
        if _ours(value.__module__):
            waiting.append(value)
        return f"{value.__module__}.{value.__qualname__}" if _ours(value.__module__) else ""
    if isinstance(value, str | int | float | complex | bytes | bool | None):
        return repr(value)
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{hashlib.blake2b(value.tobytes()).hexdigest()}"
    if isinstance(value, Mapping):
        return f"dict{[(_constant(name, waiting), _constant(each, waiting)) for name, each in value.items()]}"
    if isinstance(value, list | tuple | set | frozenset):
        inside = [_constant(each, waiting) for each in value]
        return f"{type(value).__name__}[{', '.join(sorted(inside) if isinstance(value, set | frozenset) else inside)}]"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return f"{type(value).__name__}{_constant(fields, waiting)}"
    return ""


def _bare(tree: ast.AST) -> ast.AST:
    """Without documentation."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def _ours(module: str) -> bool:
    return module.split(".")[0] == PACKAGE
