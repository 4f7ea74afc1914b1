"""The libraries that dither races against, behind one small interface.

Two Python libraries offer the same frequency oracles: pure-ldp (one object a side, a method call a user) and
multi-freq-ldpy (a function call a user, partly compiled with Numba). Each is used as its own README does, in the
form that suits it: values are a list of Python integers, reports a list of whatever the client returns. Nothing of
theirs is changed or copied.

`client` turns values into reports. `server` makes a fresh server, which the clock does not see, and returns
what turns reports into the estimates of all categories, which it does.

Neither offers a mechanism for numbers (Duchi, piecewise, square wave, hybrid), and no maintained package was found that
does: dither's run alone. Two libraries made for the trusted curator offer noise that a client may add by itself. They
are raced as clients, if they are installed:

- OpenDP: discrete Laplace and Gaussian noise on integers, exact and from secure randomness, one call for all users. The
  number is put on dither's lattice first, and the scale is dither's, so that the noise is the same.
- diffprivlib: Laplace and analytic Gaussian noise on floats, a call a user. It needs scikit-learn below 1.8.

pure-ldp and multi-freq-ldpy draw from a Mersenne Twister (Python's or NumPy's), which protects nobody. All peers use
one core. dither draws from a cipher keyed by the operating system and uses every core: what is compared is what a user
of each gets.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

Values = Sequence[Any]
Reports = Sequence[Any]


@dataclass(frozen=True)
class Peer:
    """One mechanism of another library. Additive noise has no server of its own."""

    library: str
    client: Callable[[Values], Reports]
    server: Callable[[], Callable[[Reports], Sequence[float]]] | None = None


def missing() -> list[str]:
    """The libraries that cannot be imported here."""
    return _absent("pure_ldp.frequency_oracles", "multi_freq_ldpy.pure_frequency_oracles.GRR")


def missing_noise() -> list[str]:
    """The libraries for additive noise that cannot be imported here, without which the race goes on."""
    return _absent("opendp.prelude", "diffprivlib.mechanisms")


def _absent(*modules: str) -> list[str]:
    absent = []
    for name in modules:
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


def laplace(epsilon: float, steps: int) -> list[Peer]:
    """Peers of `dither.Laplace` on a lattice of so many steps."""
    makers = {
        "opendp": lambda: _opendp("make_laplace", "l1_distance", steps, steps / epsilon),
        "diffprivlib": lambda: _diffprivlib("Laplace", epsilon=epsilon, sensitivity=2.0),
    }
    return [make() for name, make in makers.items() if name not in missing_noise()]


def gaussian(epsilon: float, delta: float, steps: int, sigma: float) -> list[Peer]:
    """Peers of `dither.Gaussian` on a lattice of so many steps, with noise of so many of them."""
    makers = {
        "opendp": lambda: _opendp("make_gaussian", "l2_distance", steps, sigma),
        "diffprivlib": lambda: _diffprivlib("GaussianAnalytic", epsilon=epsilon, delta=delta, sensitivity=2.0),
    }
    return [make() for name, make in makers.items() if name not in missing_noise()]


def _opendp(make: str, distance: str, steps: int, scale: float) -> Peer:
    """Noise of OpenDP on a vector of integers."""
    library = import_module("opendp.prelude")
    library.enable_features("contrib")
    metric = getattr(library, distance)(T="i32" if distance == "l1_distance" else "f64")
    domain = library.vector_domain(library.atom_domain(T="i32"))
    noise = getattr(library.m, make)(domain, metric, scale=scale)

    def randomize(values: Values) -> Reports:
        return noise([round((value + 1) * steps / 2) for value in values])

    return Peer("opendp", randomize)


def _diffprivlib(name: str, **parameters: float) -> Peer:
    """Noise of diffprivlib, value by value."""
    mechanism = getattr(import_module("diffprivlib.mechanisms"), name)(**parameters)
    return Peer("diffprivlib", lambda values: [mechanism.randomise(value) for value in values])


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
