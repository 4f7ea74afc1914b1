"""What every mechanism does around its law: it is stored and loaded, and refuses what is not its own.

All of it is exact, and none of it needs to know what kind of mechanism it is: the domain says which values are outside.
"""

import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.decoding import integers
from dither.core.domains import BALL, NUMBERS, RECORDS, SPARSE, WHOLE_NUMBERS
from dither.core.mechanism import Mechanism
from dither.errors import DitherError, DomainError, EmptyError, ParameterError, ReportError, TallyError
from dither.mechanisms.lookup import load
from dither.testing.examples import LARGEST_LISTED, as_values, composed, messages
from dither.testing.seeded_collections import reports_are_distinct
from dither.testing.short_tapes import lanes_shared

SECRET = 987654321
BAD_VALUES: tuple[Any, ...] = (
    [0, 1, SECRET],
    [0, -SECRET],
    [0.5, SECRET],
    ["0", str(SECRET)],
    [[0, SECRET]],
    [None, SECRET],
    [0, 2**64 + SECRET],
    [float("nan"), SECRET],
    np.array([SECRET], dtype="datetime64[s]"),
    [True, False],
    [[0], [1, SECRET]],
)
BAD_BUDGETS: tuple[Any, ...] = (0, -1.0, float("nan"), float("inf"), "1", True, None)


def refusal(kind: type[DitherError], call: Callable[[], Any], why: str) -> str:
    """What an error of this kind says, with all that it was raised from; there must be one."""
    try:
        call()
    except kind as error:
        return messages(error)
    raise AssertionError(f"{why} must be refused with a {kind.__name__}")


def check_stored(mechanism: Mechanism) -> None:
    """Stored, loaded and pickled it is the same to the integer; integers that break the promise are refused."""
    again = load(mechanism.to_dict())
    assert again == mechanism
    assert again.fingerprint == mechanism.fingerprint
    assert again.weights == mechanism.weights
    made, home = type(mechanism), sys.modules.get(type(mechanism).__module__)
    if vars(home or object).get(made.__qualname__) is made:  # a pickle names its class, and must find it there
        assert pickle.loads(pickle.dumps(mechanism)) == mechanism  # noqa: S301 - its own
    broken = mechanism.to_dict()
    integers = first_integers(broken)
    integers[0] += integers[0] // 100 + 1
    refusal(ParameterError, lambda: load(broken), "a first weight that is one per cent too large")


def first_integers(stored: dict[str, Any]) -> list[int]:
    """The list in the description that starts with an integer of the first law, all as numbers."""
    stored["weights"] = integers(stored["weights"])
    return stored["weights"][0] if isinstance(stored["weights"][0], list) else stored["weights"]


def check_outputs(mechanism: Mechanism) -> None:
    """The outputs are all reports there are, each once, and an honest client can have sent each of them."""
    if max(mechanism.channel().shape) <= LARGEST_LISTED:
        assert reports_are_distinct(mechanism)
        assert mechanism.valid(mechanism.outputs()).all()
    elif not mechanism.components:
        refusal(ParameterError, mechanism.outputs, "more outputs than can be listed")


def check_lanes(mechanism: Mechanism) -> None:
    """No word of randomness decides twice: what it decides would not be independent."""
    assert not lanes_shared(mechanism)


def check_values(mechanism: Mechanism) -> None:
    """Values outside the domain are refused, and no error quotes them; where they are at fault it names the row."""
    for values in BAD_VALUES:
        given = as_values(mechanism, values)
        said = refusal(DomainError, lambda given=given: mechanism.randomize(given), "a value outside the domain")
        assert str(SECRET) not in said
    categories = mechanism.reading.domain.parameters.get("k")
    outside = categories if categories is not None else 1.0 + 2**-40
    if mechanism.reading.domain.kind == WHOLE_NUMBERS:
        outside = max(mechanism.reading.domain.parameters["shape"])
    late = as_values(mechanism, [0, 0, outside, outside])
    assert "row 2" in refusal(DomainError, lambda: mechanism.randomize(late), "a value just outside the domain")


def check_reports(mechanism: Mechanism) -> None:
    """Reports that no honest client sent are refused, and so are those of other mechanisms; none is no estimate."""
    zeros = as_values(mechanism, np.zeros(100, dtype=int))
    reports = np.asarray(mechanism.randomize(zeros, seed=2)).copy()
    forged = reports.copy()
    forged.view(np.uint8).reshape(100, -1)[37] = 255  # every field at its largest
    assert mechanism.valid(forged).tolist() == [row != 37 for row in range(100)]
    assert "report 37" in refusal(ReportError, lambda: mechanism.tally(forged), "a report out of range")
    kept = mechanism.tally(forged[mechanism.valid(forged)])
    assert kept.n == 99
    assert mechanism.tally(forged, invalid_reports="drop") == kept
    for wrong in (np.zeros(3), np.zeros(3, dtype=[("other", "u8")]), reports[None]):
        refusal(ReportError, lambda wrong=wrong: mechanism.tally(wrong), "what is no report")
    empty = mechanism.randomize([])
    assert empty.dtype == mechanism.dtype
    tally = mechanism.tally(empty)
    assert tally.n == 0
    refusal(EmptyError, lambda: mechanism.estimate(tally), "an estimate from no report")
    full = mechanism.tally(mechanism.randomize(zeros, seed=1))
    assert full + tally == full
    strange: Any = "a text"
    refusal(TallyError, lambda: mechanism.estimate(strange), "what is no tally")


def check_secure(mechanism: Mechanism) -> None:
    """Without a seed reports differ and promise; with one they are marked, and promise nothing."""
    values = as_values(mechanism, np.zeros(2000, dtype=np.int64))
    one, two = mechanism.randomize(values), mechanism.randomize(values)
    assert (one != two).any()
    assert not one.simulated
    estimate: Any = mechanism.estimate(mechanism.tally(one))
    assert estimate.guarantee == mechanism.guarantee
    simulated = mechanism.randomize(values, seed=1)
    assert simulated.simulated
    for tally in (mechanism.tally(simulated), mechanism.tally(one) + mechanism.tally(simulated)):
        promise: Any = mechanism.estimate(tally)
        assert promise.guarantee.simulated
        assert promise.guarantee.epsilon == np.inf


def check_budgets(mechanism: Mechanism) -> None:
    """A budget that is none is refused."""
    own = {name: value for name, value in mechanism.to_dict().items() if name not in ("mechanism", "weights")}
    for epsilon in BAD_BUDGETS:
        if epsilon is not None or mechanism.reading.domain.kind != "groups":  # whose groups have budgets
            changed = {**own, "epsilon": epsilon}
            refusal(DitherError, lambda changed=changed: type(mechanism)(**changed), "an epsilon that is none")


def population(mechanism: Mechanism, users: int) -> NDArray:
    """Users with all kinds of values; the dimensions of a record go through them in different orders."""
    reading: Any = mechanism.reading
    domain = reading.domain
    if composed(mechanism):
        parts = [population(reading.part(j), users) for j in range(reading.d)]
        return np.column_stack([np.roll(column, 317 * j) for j, column in enumerate(parts)])
    if domain.kind == NUMBERS:
        return np.linspace(-0.9, 0.5, users)
    if domain.kind in (RECORDS, WHOLE_NUMBERS):
        column = np.linspace(-0.9, 0.5, users)
        return np.column_stack([np.roll(column, 317 * j) for j in range(domain.d)])
    if domain.kind == SPARSE:
        values = np.linspace(-0.9, 1.0, 7)
        return domain.check(
            [
                {(user + slot) % domain.d: values[(user + 3 * slot) % 7] for slot in range(user % (domain.s + 1))}
                for user in range(users)
            ]
        )
    if domain.kind == BALL:
        return domain.points(users) * np.linspace(0.0, 1.0, users)[:, None]
    inputs = mechanism.inputs()
    shares = 1.0 / np.arange(1, len(inputs) + 1) ** 1.5
    return inputs[np.searchsorted(np.cumsum(shares) / shares.sum(), (np.arange(users) + 0.5) / users)]
