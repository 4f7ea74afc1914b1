"""Certificates: the exact (epsilon, delta) of the sampler that runs.

Nothing is sampled and no float is trusted. The probabilities are rationals of the integers that the sampler uses.
Where the channel is small it is written out and every pair of inputs is compared; the structural formula, which is
what serves the large ones, must then agree exactly, or the certificate is refused.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

from dither.core.channel import Channel, Table
from dither.core.exact import exp_below
from dither.core.guarantee import Guarantee
from dither.errors import DitherError, ParameterError

_ENUMERATED = 1 << 14


@runtime_checkable
class Promising(Protocol):
    """What promises something: a mechanism, or a plan."""

    @property
    def fingerprint(self) -> Any:  # a text; a type checker would not take a cached one for it
        """Equal exactly for equal ones."""
        ...

    @property
    def guarantee(self) -> Any:  # a `Guarantee`, cached too
        """What is promised."""
        ...


@runtime_checkable
class Certifiable(Protocol):
    """What a certificate needs to see of a mechanism, or of a plan."""

    @property
    def epsilon(self) -> float:
        """The declared epsilon."""
        ...

    @property
    def delta(self) -> float:
        """The declared delta."""
        ...

    @property
    def remembers(self) -> bool:
        """Whether a device keeps a response, which all its reports are made from."""
        ...

    def channel(self) -> Channel:
        """The exact conditional probabilities of a report."""
        ...

    def lifetime_channel(self) -> Channel:
        """The channel of all that the reports about one value can tell."""
        ...


def certify(mechanism: Certifiable) -> Guarantee:
    """The guarantee of one report, exactly: by enumeration where the domain is small, by structure where it is large.

    Of a device with memory it is that of all reports about one value; of a plan, of all that a user reports.

    >>> from dither.mechanisms import GRR
    >>> print(certify(GRR(k=1000, epsilon=1.0)))
    epsilon 1 (exact)
    """
    if not isinstance(mechanism, Certifiable):
        raise ParameterError("give a mechanism, as in GRR(k=4, epsilon=1.0), or a plan")
    for channel in (mechanism.channel(), mechanism.lifetime_channel()):
        for block in _listed(channel):
            _compare(block, exp_below(mechanism.epsilon))
    return Guarantee.of(mechanism.lifetime_channel(), mechanism.epsilon, mechanism.delta)


def _listed(channel: Channel) -> Iterator[Channel]:
    """Those that are small enough to be written out: the channel, or else what it is made of."""
    inputs, outputs = channel.shape
    if channel.listed and inputs * outputs <= _ENUMERATED and inputs <= 64:
        yield channel
    else:
        yield from (small for part in channel.parts for small in _listed(part))


def _compare(channel: Channel, ratio: Fraction) -> None:
    table = Table.of([channel.row(x) for x in range(channel.shape[0])])
    largest, stated = table.ratio(), channel.ratio()
    within = largest <= stated and table.divergence(ratio) <= channel.divergence(ratio)
    attained = largest == stated
    if not (within and attained):
        raise DitherError("enumeration contradicts the structural certificate; please report this as a bug")
