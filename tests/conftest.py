"""What is not installed is named, not stumbled over.

A test file that imports an optional library at its top is skipped where that library is missing, with its name and the
way to get it. Any other failing import stays an error, and so does one inside of a library that is there.

Hypothesis tries the same examples in every run, so that a change is red for what it did. Others are tried with
`pytest --hypothesis-profile default`, and by `make fuzz`.
"""

from collections.abc import Generator
from contextlib import suppress

import pytest

from dither.errors import MissingExtraError

with suppress(ModuleNotFoundError):
    from hypothesis import settings

    settings.register_profile("same", derandomize=True, database=None)
    settings.load_profile("same")

INSTALL = {
    "dp_accounting": "dither[dev]",
    "duckdb": "dither[fast]",
    "flwr": "dither[federated]",
    "hypothesis": "dither[dev]",
    "matplotlib": "dither[plot]",
    "numba": "dither[fast]",
    "pandas": "dither[pandas]",
    "polars": "dither[dev]",
    "psycopg": "dither[postgres]",
    "pyarrow": "dither[fast]",
    "pyspark": "dither[spark]",
    "scipy": "dither[fast]",
    "sklearn": "dither[learn]",
    "sqlglot": "dither[query]",
    "starlette": "dither[serve]",
    "torch": "dither[learn]",
    "uvicorn": "dither[serve]",
}


def missing(error: BaseException | None) -> str | None:
    """Which optional library an import failed for, and how to install it."""
    if isinstance(error, MissingExtraError):
        return str(error)
    if not isinstance(error, ModuleNotFoundError) or error.name not in INSTALL:
        return None
    return f"this needs {error.name}: pip install '{INSTALL[error.name]}'"


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A file that cannot be imported for want of an optional library is skipped."""
    report = yield
    raised = report.call.excinfo if report.failed else None
    reason = missing(raised.value) or missing(raised.value.__cause__) if raised else None
    if reason:
        report.outcome, report.longrepr = "skipped", (str(collector.path), 1, f"Skipped: {reason}")
    return report
