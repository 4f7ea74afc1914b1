"""The room itself: its names, and what it says where an extra is missing."""

import subprocess
import sys

import pytest

from dither import learn


@pytest.mark.parametrize("name", dir(learn))
def test_every_name_is_there(name):
    assert getattr(learn, name) is not None


def test_another_name_is_not():
    with pytest.raises(AttributeError, match="attribute Nonsense"):
        _ = learn.Nonsense  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "missing"), [("DPSGD", "torch"), ("Federation", "torch"), ("LogisticRegression", "sklearn")]
)
def test_a_missing_extra_is_named(name, missing):
    script = (
        f"import sys; sys.modules['{missing}'] = None\n"
        "from dither import learn, DitherError\n"
        f"try: learn.{name}\n"
        "except DitherError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == f"this needs {missing}: pip install 'dither[learn]'\n"


def test_the_room_alone_loads_neither_torch_nor_scikit_learn():
    script = "import sys; from dither import learn; learn.VectorReporter; "
    script += "print('torch' in sys.modules, 'sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
