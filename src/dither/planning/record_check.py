"""What a device would silently put in the place of a value: for the tests of whoever builds the device.

`plan.report` takes any record and never tells what was wrong with it, since that would be a fact about its user. So a
mistake of the device, such as a misspelt name or an amount in cents, goes unnoticed: every user sends a substitute. A
test that calls `plan.check` on a record that was made for it finds it before anybody is asked.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dither.display.table import TextTable
from dither.errors import DomainError, RowError
from dither.planning.record_tables import record_of
from dither.questions.question import Column
from dither.schema import Attribute

_ABSENT = "the record does not have it"


@dataclass(frozen=True)
class RecordCheck:
    """For each attribute that does not fit, what is wrong and what a device sends instead; and names nobody asks for.

    Substitutes are those of the schema; no value of the record is in it.
    """

    problems: Mapping[str, str]
    unused: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether a device sends what the record holds."""
        return not self.problems

    def table(self) -> TextTable:
        """One row an attribute that does not fit."""
        return TextTable({"attribute": list(self.problems), "what a device does": list(self.problems.values())})

    def __repr__(self) -> str:
        lines = ["The record fits the plan." if self.fits else f"The record does not fit the plan.\n{self.table()}"]
        if self.unused:
            lines.append(f"Not asked for: {', '.join(self.unused)}.")
        return "\n".join(lines)


def checked_record(record: Any, columns: Mapping[str, Column], attributes: Mapping[str, Attribute]) -> RecordCheck:
    """Compare the record of one user with what is asked."""
    values = record_of(record, attributes)
    try:
        held = set(record) if isinstance(record, Mapping) else set(attributes)
    except Exception:  # of a container of one's own: a device sends a substitute for all of it
        held = set()
    problems = {}
    for name, column in columns.items():
        reason = _ABSENT if name not in held else _reason(column, values[name])
        if reason:
            problems[name] = f"{reason}; a device sends {attributes[name].stand_in(values[name])}"
    unused = tuple(str(name) for name in held if name not in attributes)
    return RecordCheck(problems, tuple(sorted(unused)))


def _reason(column: Column, value: list[Any]) -> str:
    try:
        encoded = column.encode(value)
    except RowError as error:
        return error.rule
    except DomainError:
        return "it is not one value"
    except Exception:  # devices meet values of any kind, and send all the same
        return "it cannot be looked at"
    return "" if encoded.shape == (1,) else "it is not one value"
