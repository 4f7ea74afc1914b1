"""Recipes: a mechanism without its budget, as text.

`Sampled` and its kin run one-dimensional mechanisms with a share of their own budget. What they are told is a
recipe: a mechanism's name with every parameter but epsilon, delta and weights, written as it would be in Python.
`"Piecewise"` and `"GRR(k=5)"` are recipes; a class, a `functools.partial` of one and a mapping like `{"mechanism":
"GRR", "k": 5}` become one. As text it compares, prints and is stored the same everywhere.
"""

import ast
import functools
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from dither.core.mechanism import Mechanism
from dither.errors import ParameterError
from dither.mechanisms.lookup import registry

_BUDGET = ("epsilon", "delta", "weights")
_ADVICE = 'name a mechanism, as in base="Piecewise", base=dither.Piecewise or base="GRR(k=5)"'


def normal_spec(base: Any) -> str:
    """The normal form of a recipe.

    >>> normal_spec("grr( k = 5 )"), normal_spec({"mechanism": "GRR", "k": 5})
    ('GRR(k=5)', 'GRR(k=5)')
    """
    cls, parameters = parsed_spec(base)
    if cls.remembers:
        raise ParameterError(f"{cls.__name__} keeps a response on the device: as a base it would be drawn again")
    parameters = {name: value.item() if isinstance(value, np.generic) else value for name, value in parameters.items()}
    known = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    for name in parameters:
        if name in _BUDGET or name not in known:
            raise ParameterError(
                f"{cls.__name__} takes no {name} as a base: give {', '.join(_own(known)) or 'nothing'}"
            )
    listed = ", ".join(f"{name}={parameters[name]!r}" for name in known if name in parameters)
    return f"{cls.__name__}({listed})" if listed else cls.__name__


def takes_delta(text: str) -> bool:
    """Whether the mechanism of a recipe has a delta."""
    return parsed_spec(text)[0].knows_delta()


def from_spec(text: str, epsilon: float, delta: float, weights: Any = None) -> Mechanism:
    """The mechanism of a recipe with a budget, and with the integers of a stored plan if there are some."""
    cls, parameters = parsed_spec(text)
    try:
        return cls.with_budget(parameters, epsilon, delta, weights)
    except TypeError:
        pass
    needed = ", ".join(f"{name}=..." for name in _own([field.name for field in fields(cls)]))  # type: ignore[arg-type]
    raise ParameterError(f'a base needs its own parameters, all but epsilon: base="{cls.__name__}({needed})"')


def _own(known: list[str]) -> list[str]:
    return [name for name in known if name not in _BUDGET]


def parsed_spec(base: Any) -> tuple[type[Mechanism], dict[str, Any]]:
    """The mechanism that a recipe names, and the parameters that it gives."""
    if isinstance(base, str):
        name, parameters = _read(base)
        return registry.find(name), parameters
    if isinstance(base, Mapping):
        parameters = {str(name): value for name, value in base.items()}
        return registry.find(str(parameters.pop("mechanism", ""))), parameters
    if isinstance(base, functools.partial) and not base.args:
        return parsed_spec(base.func)[0], dict(base.keywords)
    if isinstance(base, type) and registry.get(base.__name__) is base:
        return base, {}
    raise ParameterError(f"base must be a mechanism without its budget: {_ADVICE}")


def _read(text: str) -> tuple[str, dict[str, Any]]:
    try:
        plain = text.strip()
        tree = ast.parse(plain if plain.endswith(")") else f"{plain}()", mode="eval").body
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and not tree.args:
            parameters = {word.arg or "": ast.literal_eval(word.value) for word in tree.keywords}
            if len(parameters) == len(tree.keywords):
                return tree.func.id, parameters
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        pass
    raise ParameterError(f"this text is not a mechanism: {_ADVICE}")
