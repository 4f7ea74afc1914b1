"""What a file holds, as its type; or an error that names the field, and quotes nothing of what stands there.

A format is a `msgspec.Struct`, or the annotations of a dataclass. msgspec says where a file breaks it, as in
`Expected `int` >= 1 - at `$.parts[2].weight``; here this becomes `parts[2].weight: expected int >= 1`. The one message
of msgspec that quotes a value (a text that is none of those allowed) is replaced.
"""

from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any, TypeVar, get_type_hints

import msgspec

from dither.errors import DitherError, ParameterError

T = TypeVar("T")


def decoded(stored: Any, kind: type[T], what: str, error: type[DitherError] = ParameterError, name: str = "") -> T:
    """A value of this kind from what JSON, TOML or MessagePack made of a file; `what` begins the error.

    >>> decoded({"n": [4, "five"]}, dict[str, list[int]], "these are no counts")
    Traceback (most recent call last):
    dither.errors.ParameterError: these are no counts: [...][1]: expected int, got str
    """
    try:
        return msgspec.convert(stored, kind)
    except msgspec.ValidationError as found:
        reason = _reason(str(found), name)
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can hold, and no text
        reason = f"{name}{': ' if name else ''}not a text"
    raise error(f"{what}: {reason}")  # not from within the handler: the original may quote a value


def _reason(message: str, name: str) -> str:
    """The words of msgspec after the field that they are about, which is within the field `name`."""
    rule, _, place = message.rpartition(" - at ")
    if not rule or not place.endswith("`"):
        rule, place = message, ""
    if rule.startswith("Invalid"):
        rule = "not one of the values that there are"
    rule = rule.replace("`", "").removeprefix("Object ")
    path = (name + place.replace("`", "").removeprefix("$")).removeprefix(".")
    return f"{path}{': ' if path else ''}{rule[0].lower()}{rule[1:]}"


def decoded_parameters(cls: type, stored: dict[str, Any], what: str) -> dict[str, Any]:
    """The parameters of a dataclass, each of the type that is declared; none is unknown, and none is missing."""
    known = _parameters(cls)
    unknown, missing = stored.keys() - known, {name for name, each in known.items() if _needed(each)} - stored.keys()
    if unknown or missing:
        told = f"missing {min(missing)}" if missing else f"unknown {min(unknown)}"
        raise ParameterError(f"{what}: {told}; there are {', '.join(known)}")
    kinds = _kinds(cls)
    return {name: decoded(value, kinds[name], what, name=name) for name, value in stored.items()}


def plain(value: T) -> T | list[Any]:
    """What a file holds of a value: tuples, also within others, as the lists that JSON has."""
    return [plain(item) for item in value] if isinstance(value, tuple) else value


@cache
def _parameters(cls: Any) -> dict[str, Field]:
    return {each.name: each for each in fields(cls)}


@cache
def _kinds(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)


def _needed(parameter: Field) -> bool:
    return parameter.default is MISSING and parameter.default_factory is MISSING
