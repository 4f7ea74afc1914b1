"""Progress: on a terminal what is done, how fast and how long still; elsewhere nothing at all."""

import io
import re

import pytest
from rich.console import Console

from dither.display import progress as module
from dither.display.progress import progress, short, track


def terminal(width: int = 80) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None, legacy_windows=False)


def drawn(console: Console) -> str:
    """All that was ever on the screen, without the codes that move the cursor."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())  # type: ignore[attr-defined]


def shown(console: Console, total: int | None, parts: list[int], monkeypatch: pytest.MonkeyPatch, **options) -> str:
    """A bar that is drawn after each part, on a clock that goes on by two seconds each time."""
    clock = iter(range(0, 10**6, 2))
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(clock)))
    bars = []
    real = module._drawn

    def kept(*given):
        bars.append(real(*given))
        return bars[0]

    monkeypatch.setattr(module, "_drawn", kept)
    with progress("Tallying", total, console=console, **options) as advance:
        for part in parts:
            advance(part)
            bars[0].refresh()
    return drawn(console)


@pytest.mark.parametrize("width", [80, 120])
def test_a_known_total_has_a_bar_a_speed_and_a_time(monkeypatch, width):
    text = shown(terminal(width), 100_000_000, [9_000_000, 41_000_000], monkeypatch, unit="reports")
    assert "9,000,000 of 100.0M reports" in text
    assert "50.0M of 100.0M reports" in text
    assert re.search(r"Tallying +━+", text)
    assert "20.5M/s 0:00:02" in text  # 41 million in 2 seconds, and 50 are left
    assert max(map(len, re.split(r"[\r\n]", text))) <= width


def test_an_unknown_total_has_a_count_and_a_speed(monkeypatch):
    text = shown(terminal(), None, [1000, 500], monkeypatch)
    assert "1,500 rows" in text
    assert " of " not in text
    assert "250/s" in text
    assert "━" not in text


def test_where_nobody_looks_nothing_is_drawn(capsys):
    console = Console(file=io.StringIO(), force_terminal=False)
    with progress("Tallying", 10, console=console) as advance:
        advance(10)
    assert console.file.getvalue() == ""  # type: ignore[attr-defined]
    with progress("Tallying", 10) as advance:
        advance(10)
    assert list(track("Working")(iter("abc"))) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "")


def test_a_bar_is_gone_when_work_fails(monkeypatch):
    console = terminal()

    def work() -> None:
        with progress("Tallying", 10, console=console) as advance:
            advance(3)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        work()
    assert console.file.getvalue().endswith(("\x1b[2K", "\x1b[?25h", "\r"))  # type: ignore[attr-defined]


def test_steps_are_as_lazy_as_their_reader():
    seen = []
    for step in track("Working")(range(5)):
        seen.append(step)
        if step == 2:
            break
    assert seen == [0, 1, 2]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0.0"), (9.96, "10.0"), (999, "999"), (1000, "1.0k"), (999_949, "999.9k"), (2e12, "2000.0G")],
)
def test_short(number, text):
    assert short(number) == text
