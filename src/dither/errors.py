"""Errors that say what to do next, and never hold a raw value.

Every refusal of the library is a `DitherError`. Each kind is also the built-in exception that a caller
would expect (`ValueError`, `TypeError`, `ImportError`), so ordinary handlers work. A message may name an
attribute, a rule and a row; it never quotes what stood in that row, because messages end up in logs.
"""

from typing import Any


class DitherError(Exception):
    """Anything that dither refuses."""


class ParameterError(DitherError, ValueError):
    """A mechanism, plan or call was given a parameter that has no meaning."""


class DomainError(DitherError, ValueError):
    """A value to be randomized lies outside the declared domain, or has the wrong type."""


class RowError(DomainError):
    """A value of a row does not fit. Rows count from 0, and the rule that is broken never quotes the value.

    `column` says where in the row, if it has no attribute with a name; `advice` what to do with such values, and
    `substitute` what to pass to put something in their place.

    >>> print(RowError(3, "the value is no number", column="dimension 2", advice="leave it out", substitute="pass 0"))
    row 3, dimension 2: the value is no number; leave it out, or pass 0
    """

    def __init__(
        self, row: int, rule: str, attribute: str = "", *, column: str = "", advice: str = "", substitute: str = ""
    ) -> None:
        self.row, self.rule, self.attribute, self.column = row, rule, attribute, column
        self.advice, self.substitute = advice, substitute
        super().__init__(row, rule, attribute)

    def but(self, **changes: Any) -> "RowError":
        """The same error with something else about it, such as the name of the attribute."""
        names = ("row", "rule", "attribute", "column", "advice", "substitute")
        return RowError(**{**{name: vars(self)[name] for name in names}, **changes})

    def __reduce__(self):
        return RowError, (self.row, self.rule, self.attribute), vars(self)

    def __str__(self) -> str:
        where = f"attribute {self.attribute}, row {self.row}" if self.attribute else f"row {self.row}"
        place = f"{where}, {self.column}" if self.column and not self.attribute else where
        hints = ", or ".join(filter(None, [self.advice, self.substitute]))
        return f"{place}: {self.rule}; {hints}" if hints else f"{place}: {self.rule}"


class ReportError(DitherError, ValueError):
    """Reports that no honest client of this mechanism can have sent."""


class InvalidReportError(ReportError):
    """Some of the reports are invalid, the others are not: `invalid_reports="drop"` leaves out those that are."""


class WireError(ReportError):
    """A batch of reports that cannot be read as a whole; `reason` says why, in one of the words of `dither.wire`."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(reason, message)

    def __str__(self) -> str:
        return self.args[1]


class TallyError(DitherError, ValueError):
    """Tallies that cannot be merged, read or decoded."""


class EmptyError(DitherError, ValueError):
    """An estimate was asked of no reports."""


class UnknownError(DitherError, KeyError):
    """A result was asked for by a name that there is not."""

    __str__ = Exception.__str__  # a KeyError would show its message in quotes


class WriteError(DitherError, OSError):
    """A file could not be written, as when the disk is full."""


class CollectorError(DitherError, OSError):
    """A collector that cannot be reached, or sent something else than it was asked for; nothing was reported."""


class LedgerError(DitherError, OSError):
    """A ledger that cannot be read, trusted or written; no report was handed out."""


class BudgetError(DitherError, ValueError):
    """A plan for which too little of the budget is left; it depends on public facts only."""


class MissingExtraError(DitherError, ImportError):
    """An optional dependency is needed; the message names the extra that brings it."""


class DitherWarning(UserWarning):
    """Anything that dither does as asked, but would not do itself."""


class BudgetWarning(DitherWarning):
    """A budget or a crowd that is too small to learn anything from."""


class HarmWarning(DitherWarning):
    """A refinement that may move an estimate away from the truth."""


def require(module: str, extra: str):
    """Import an optional module, or say which extra to install; also where it is there, and does not work."""
    import importlib

    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        lacking = "" if (error.name or package).partition(".")[0] == package else f", whose {error.name} is missing"
        reason = f"this needs {package}{lacking}: pip install 'dither[{extra}]'"
    except ImportError as error:
        told = (str(error).splitlines() or [type(error).__name__])[0]
        reason = f"this needs {package}, which cannot be imported ({told}): pip install --upgrade 'dither[{extra}]'"
    raise MissingExtraError(reason)
