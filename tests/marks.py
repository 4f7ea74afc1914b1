"""Parameters that only the wide tests run (see CONTRIBUTING.md, Tests)."""

from collections.abc import Iterable
from typing import Any

import pytest


def wide(*values: Any) -> Any:
    """One set of parameters, for `make test-wide`."""
    return pytest.param(*values, marks=pytest.mark.wide)


def one_in(step: int, values: Iterable[Any]) -> list[Any]:
    """The first of every `step` parameters; the others are wide."""
    sets = [each if isinstance(each, tuple) else (each,) for each in values]
    return [pytest.param(*each) if i % step == 0 else wide(*each) for i, each in enumerate(sets)]
