"""Tallies against what is declared that one report can add to them.

All reports of a small alphabet are counted one by one: what each adds must be within the declaration, and every bound
must be what some report adds, since a wide bound lets a liar through. Of a large alphabet there are honest reports,
and the same with their numbers at both ends. Then tallies that claim a little more must be refused.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.mechanism import Mechanism
from dither.core.tally import Tally
from dither.errors import TallyError
from dither.testing.behaviour import refusal
from dither.testing.examples import composed, sampled_inputs

_MOST_COUNTED = 1 << 11  # reports that are counted one by one
_HONEST = 256  # reports, of all kinds of inputs


def check_tallies(mechanism: Mechanism) -> bool:
    """One report adds what is declared, and each bound is reached; a tally beyond what its reports can add is refused.

    False if nothing is declared about what a report adds.
    """
    declared = mechanism.contributions
    if declared.shape is None:
        return False
    reports, whole = _reports(mechanism)
    counts = np.array([mechanism._count(reports[row : row + 1]) for row in range(len(reports))])
    for own in counts:
        assert declared.fault(1, own) is None, declared.fault(1, own)
    assert declared.fault(0, np.zeros(declared.shape, dtype=np.int64)) is None
    n, most = len(reports), 1 << 62 - len(reports).bit_length()
    if declared.attained and whole:
        assert declared.slack(counts) is None, declared.slack(counts)
        most = int(np.abs(counts).max())
    total = counts.sum(axis=0)
    mechanism.check_tally(Tally(mechanism.fingerprint, n, total))
    for place in {(0,) * total.ndim, tuple(size - 1 for size in total.shape)}:
        for claimed in (n * most + 1, -n * most - 1):
            forged = total.copy()
            forged[place] = claimed
            tally = Tally(mechanism.fingerprint, n, forged)
            refusal(TallyError, lambda tally=tally: mechanism.estimate(tally), "a count that no reports add up to")
    for wrong in (Tally(mechanism.fingerprint, n, total[..., None]), Tally(mechanism.fingerprint, 0, total)):
        refusal(TallyError, lambda wrong=wrong: mechanism.check_tally(wrong), "counts of no reports, or of others")
    return True


def _reports(mechanism: Mechanism) -> tuple[NDArray[Any], bool]:
    """Reports of all kinds, and whether every bound should be reached by one of them."""
    if mechanism.channel().shape[1] <= _MOST_COUNTED:
        return mechanism.outputs(), True
    inputs = sampled_inputs(mechanism)
    honest = np.asarray(mechanism.randomize(np.resize(inputs, (_HONEST, *inputs.shape[1:])), seed=5))
    ends = [honest]
    for name in honest.dtype.names or ():
        if np.issubdtype(honest.dtype[name].base, np.unsignedinteger):
            for end in (0, _largest(mechanism, honest, name)):
                changed = honest.copy()
                changed[name] = end
                ends.append(changed[mechanism.valid(changed)])
    alphabet = mechanism.contributions.size == mechanism.channel().shape[1]  # a histogram of too many reports
    return np.concatenate(ends), not (alphabet or composed(mechanism) or mechanism.components)


def _largest(mechanism: Mechanism, reports: NDArray[Any], name: str) -> int:
    """The largest number that a field can have in a valid report."""
    low, high = 0, int(np.iinfo(reports.dtype[name].base).max)
    changed = reports[:1].copy()
    while low < high:
        changed[name] = (low + high + 1) // 2
        low, high = ((low + high + 1) // 2, high) if mechanism.valid(changed)[0] else (low, (low + high + 1) // 2 - 1)
    return low
