"""Errors that say what to do next, and never hold a raw value.

Every refusal of the library is a `DitherError`. Each kind is also the built-in exception that a caller
would expect (`ValueError`, `TypeError`, `ImportError`), so ordinary handlers work. A message may name an
attribute, a rule and a row; it never quotes what stood in that row, because messages end up in logs.
"""


class DitherError(Exception):
    """Anything that dither refuses."""


class ParameterError(DitherError, ValueError):
    """A mechanism, plan or call was given a parameter that has no meaning."""


class DomainError(DitherError, ValueError):
    """A value to be randomized lies outside the declared domain, or has the wrong type."""


class RowError(DomainError):
    """A value of a row does not fit. Rows count from 0, and the rule that is broken never quotes the value."""

    def __init__(self, row: int, rule: str, attribute: str = "") -> None:
        self.row, self.rule, self.attribute = row, rule, attribute
        super().__init__(f"attribute {attribute}, row {row}: {rule}" if attribute else f"row {row}: {rule}")

    def __reduce__(self):
        return RowError, (self.row, self.rule, self.attribute)


class ReportError(DitherError, ValueError):
    """Reports that no honest client of this mechanism can have sent."""


class TallyError(DitherError, ValueError):
    """Tallies that cannot be merged, read or decoded."""


class EmptyError(DitherError, ValueError):
    """An estimate was asked of no reports."""


class UnknownError(DitherError, KeyError):
    """A result was asked for by a name that there is not."""

    __str__ = Exception.__str__  # a KeyError would show its message in quotes


class WriteError(DitherError, OSError):
    """A file could not be written, as when the disk is full."""


class MissingExtraError(DitherError, ImportError):
    """An optional dependency is needed; the message names the extra that brings it."""


class DitherWarning(UserWarning):
    """Anything that dither does as asked, but would not do itself."""


class BudgetWarning(DitherWarning):
    """A budget or a crowd that is too small to learn anything from."""


class HarmWarning(DitherWarning):
    """A refinement that may move an estimate away from the truth."""


def require(module: str, extra: str):
    """Import an optional module, or say which extra to install."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError(f"this needs {module.partition('.')[0]}: pip install 'dither[{extra}]'") from None
