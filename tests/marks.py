"""Parameters that only the wide tests run (see CONTRIBUTING.md, Tests)."""

from typing import Any

import pytest


def wide(*values: Any) -> Any:
    """One set of parameters, for `make test-wide`."""
    return pytest.param(*values, marks=pytest.mark.wide)
