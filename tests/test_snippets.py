"""The check of the pages' types finds what a user's editor would, and says on which line of which page."""

import runpy
from pathlib import Path

import pytest

SNIPPETS = runpy.run_path(str(Path(__file__).parent.parent / "docs" / "snippets.py"))

PAGE = """# A page

```python
import dither
from dither.learn import geodp

mechanism = dither.GRR(k=4, epsilon=1.0)
certificate: dither.Guarantee = dither.privacy.certify(mechanism)
print(geodp.__name__, dither.registry["Unary"](k=4, epsilon=1.0), dither.errors.DomainError)
```

```python
dither.GRRR
dither.GRR(k="four", epsilon=1.0)
dither.learn.geo
mechanism.tally([0]).of_nobody
print(nobody)
```

<!-- untyped -->
```python
after = dither.GRRR
```

```py
dither.neither_run_nor_checked
```

```python
print(after, mechanism.estimates)
```
"""


@pytest.mark.wide
def test_what_is_wrong_is_found_on_its_line():
    found = SNIPPETS["errors"]({"page.md": PAGE, "right.md": PAGE.partition("```\n")[0] + "```\n"})
    assert sorted({error.partition(": ")[0] for error in found}) == [
        "page.md:13",
        "page.md:14",
        "page.md:15",
        "page.md:16",
        "page.md:17",
        "page.md:30",
    ], found


def test_lines_stay_at_their_places():
    made = SNIPPETS["module"](PAGE)
    assert made.code.splitlines()[3] == "import dither"
    assert made.untyped == {21}
    assert "neither" not in made.code


TYPED = """
```python
import dither

mechanism = dither.GRR(4, 1.0)
tally = mechanism.tally(mechanism.randomize([0, 1]))
print(mechanism.estimate(tally).value.round(2), mechanism.estimate(tally).interval(0.95)[0])
print(dither.CoCo(d=5, s=2, epsilon=1.0).estimate(tally)["mean"].stderr)
print(dither.SquareWave(1.0).distribution(tally, bins=4).labels)
shared: dither.Collision = dither.Collision(d=5, s=2, epsilon=1.0).affordable(1.0, 100.0, 1)
print(dither.LGRR(4, epsilon=2.0, first=1.0).estimate(tally, rounds=2).stderr)
```

```python
print(mechanism.estimate(tally).valeu)
print(dither.CoCo(d=5, s=2, epsilon=1.0).estimate(tally).value)
print(dither.HDG(shape=(4, 4), epsilon=1.0, n=100).estimate(tally).of_nobody)
print(dither.LGRR(4, epsilon=2.0, first=1.0).estimate(tally).of_nobody)
```
"""


@pytest.mark.wide
def test_what_a_mechanism_estimates_is_known():
    found = SNIPPETS["errors"]({"page.md": TYPED})
    assert sorted({error.partition(": ")[0] for error in found}) == [f"page.md:{line}" for line in range(15, 19)], found
