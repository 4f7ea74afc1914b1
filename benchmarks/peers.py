"""The libraries that dither races against, behind one small interface.

Two Python libraries offer the same frequency oracles: pure-ldp (one object a side, a method call a user) and
multi-freq-ldpy (a function call a user, partly compiled with Numba). Each is used as its own README does, in the
form that suits it: values are a list of Python integers, reports a list of whatever the client returns. Nothing of
theirs is changed or copied.

`client` turns values into reports. `server` makes a fresh server, which the clock does not see, and returns
what turns reports into the estimates of all categories, which it does.

Both draw from a Mersenne Twister (Python's or NumPy's), which protects nobody, and both use one core. dither draws
from a cipher keyed by the operating system and uses every core: what is compared is what a user of each gets.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

Values = Sequence[int]
Reports = Sequence[Any]


@dataclass(frozen=True)
class Peer:
    """One mechanism of another library."""

    library: str
    client: Callable[[Values], Reports]
    server: Callable[[], Callable[[Reports], Sequence[float]]]


def missing() -> list[str]:
    """The libraries that cannot be imported here."""
    absent = []
    for name in ("pure_ldp.frequency_oracles", "multi_freq_ldpy.pure_frequency_oracles.GRR"):
        try:
            import_module(name)
        except ImportError:
            absent.append(name.partition(".")[0].replace("_", "-"))
    return absent


def randomized_response(k: int, epsilon: float) -> list[Peer]:
    """Peers of `dither.GRR`."""
    return [_pure_ldp("DE", k, epsilon), _multi_freq("GRR", (k, epsilon), (k, epsilon))]


def unary(k: int, epsilon: float) -> list[Peer]:
    """Peers of `dither.Unary`, optimal."""
    return [_pure_ldp("UE", k, epsilon, use_oue=True), _multi_freq("UE", (k, epsilon, True), (epsilon, True))]


def local_hash(k: int, epsilon: float) -> list[Peer]:
    """Peers of `dither.LocalHash`."""
    return [_pure_ldp("LH", k, epsilon, use_olh=True), _multi_freq("LH", (k, epsilon, True), (k, epsilon, True))]


def shared_hash(k: int, epsilon: float, cohorts: int) -> list[Peer]:
    """Peers of `dither.LocalHash` with cohorts: pure-ldp has them, as fast local hashing with k hash functions."""
    return [_pure_ldp("FastLH", k, epsilon, k=cohorts, use_olh=True)]


def hadamard(k: int, epsilon: float) -> list[Peer]:
    """Peers of `dither.Hadamard`. Up to epsilon = 1 the client needs no hash functions from its server."""
    return [_pure_ldp("HadamardResponse", k, epsilon, only_client={"hash_funcs": None})]


def subset_selection(k: int, epsilon: float) -> list[Peer]:
    """Peers of `dither.SubsetSelection`."""
    return [_multi_freq("SS", (k, epsilon), (k, epsilon))]


def _pure_ldp(
    name: str, categories: int, epsilon: float, *, only_client: Mapping[str, Any] | None = None, **both: Any
) -> Peer:
    """A pair of classes of pure-ldp. Its categories count from one unless an `index_mapper` says otherwise."""
    oracles = import_module("pure_ldp.frequency_oracles")
    both["index_mapper"] = lambda value: value
    client = getattr(oracles, f"{name}Client")(epsilon, categories, **both, **(only_client or {}))

    def randomize(values: Values) -> Reports:
        return list(map(client.privatise, values))

    def serve() -> Callable[[Reports], Sequence[float]]:
        server = getattr(oracles, f"{name}Server")(epsilon, categories, **both)

        def estimate(reports: Reports) -> Sequence[float]:
            server.aggregate_all(reports)
            return server.estimate_all(range(categories), suppress_warnings=True)

        return estimate

    return Peer("pure-ldp", randomize, serve)


def _multi_freq(name: str, client: tuple[Any, ...], server: tuple[Any, ...]) -> Peer:
    """A pair of functions of multi-freq-ldpy, with the parameters that follow the value and the reports."""
    module = import_module(f"multi_freq_ldpy.pure_frequency_oracles.{name}")
    privatise, aggregate = getattr(module, f"{name}_Client"), getattr(module, f"{name}_Aggregator_MI")

    def randomize(values: Values) -> Reports:
        return [privatise(value, *client) for value in values]

    return Peer("multi-freq-ldpy", randomize, lambda: lambda reports: aggregate(reports, *server))
