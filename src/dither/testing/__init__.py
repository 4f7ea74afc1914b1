"""The contract: what every mechanism must keep, as functions that raise AssertionError where it is broken.

`check_mechanism(MyMechanism)` checks all of it, for a mechanism of anybody's; the functions that it calls are here too,
one by one. They read what a mechanism declares and know no names. dither's own tests run them over the registry, break
the code on purpose, and expect them to notice. No pytest is needed; SciPy is, for quantiles.

Exact things are compared exactly: the production sampler runs over every tape of short words, and its counts must be
the channel's fractions. A statistical check states its false-alarm probability.

- `certificates`: what is promised, against the channel written out.
- `samplers`: the production sampler over all tapes, against the channel. `short_weights` makes the tapes short,
  `rounding` and `sign_sums` say once more, from the definitions, what the sampler should do before it draws.
- `estimators` and `sparse_estimators`: unbiased, with the stated moments, by enumeration of all reports.
- `seeded_collections`: merging, plumbing, coverage.
- `behaviour`: stored and loaded, what is refused, which words are read.
- `contract`: all of them in one call.
- `tapes`, `sign_vectors`: all tapes of short words, all vectors of signs.
- `examples`: the mechanisms, what kind each is, values for it.
"""

from dither.testing.behaviour import (
    check_budgets,
    check_lanes,
    check_outputs,
    check_reports,
    check_secure,
    check_stored,
    check_values,
    first_integers,
    population,
    refusal,
)
from dither.testing.certificates import check_certificate, check_channel
from dither.testing.contract import CHECKS, Contract, check_mechanism
from dither.testing.estimators import check_estimator, check_groups, check_records
from dither.testing.examples import (
    LARGEST_LISTED,
    as_bytes,
    as_values,
    component_of,
    composed,
    examples,
    label,
    many,
    messages,
    sparse_inputs,
    with_epsilon,
)
from dither.testing.rounding import mixed, rounding
from dither.testing.samplers import check_sampler, check_sparse_sampler, sparse_law
from dither.testing.seeded_collections import check_coverage, check_merging, check_plumbing, reports_are_distinct
from dither.testing.short_weights import lanes, lanes_shared, short_sparse, with_short_weights
from dither.testing.sign_sums import hashed_sign, total_of
from dither.testing.sparse_estimators import (
    check_hits,
    check_outcomes,
    check_simulated_errors,
    check_sparse_errors,
    check_sparse_estimates,
    expected_tally,
    sparse_truth,
)

__all__ = [
    "CHECKS",
    "LARGEST_LISTED",
    "Contract",
    "as_bytes",
    "as_values",
    "check_budgets",
    "check_certificate",
    "check_channel",
    "check_coverage",
    "check_estimator",
    "check_groups",
    "check_hits",
    "check_lanes",
    "check_mechanism",
    "check_merging",
    "check_outcomes",
    "check_outputs",
    "check_plumbing",
    "check_records",
    "check_reports",
    "check_sampler",
    "check_secure",
    "check_simulated_errors",
    "check_sparse_errors",
    "check_sparse_estimates",
    "check_sparse_sampler",
    "check_stored",
    "check_values",
    "component_of",
    "composed",
    "examples",
    "expected_tally",
    "first_integers",
    "hashed_sign",
    "label",
    "lanes",
    "lanes_shared",
    "many",
    "messages",
    "mixed",
    "population",
    "refusal",
    "reports_are_distinct",
    "rounding",
    "short_sparse",
    "sparse_inputs",
    "sparse_law",
    "sparse_truth",
    "total_of",
    "with_epsilon",
    "with_short_weights",
]
