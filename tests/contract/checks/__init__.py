"""The contract: what every mechanism in the registry must keep, as functions that raise where it is broken.

`test_contract.py` runs them over the registry; `test_mutants.py` breaks the code and expects them to notice. Exact
things are compared exactly: the production sampler runs over every tape of short words, and its counts must be the
channel's fractions. A statistical check states its false-alarm probability.

- `certificates`: what is promised, against the channel written out.
- `samplers`: the production sampler over all tapes, against the channel. `short_weights` makes the tapes short,
  `rounding` and `sign_sums` say once more, from the definitions, what the sampler should do before it draws.
- `estimators` and `sparse_estimators`: unbiased, with the stated moments, by enumeration of all reports.
- `seeded_collections`: merging, plumbing, coverage.
- `examples`: the mechanisms, what kind each is, values for it.
"""

from contract.checks.certificates import check_certificate, check_channel
from contract.checks.estimators import check_estimator, check_groups, check_records
from contract.checks.examples import (
    LARGEST_LISTED,
    as_bytes,
    as_values,
    component_of,
    composed,
    examples,
    label,
    many,
    messages,
    parts_of,
    sparse_inputs,
    with_epsilon,
)
from contract.checks.rounding import mixed, rounding
from contract.checks.samplers import check_sampler, check_sparse_sampler, sparse_law
from contract.checks.seeded_collections import check_coverage, check_merging, check_plumbing, reports_are_distinct
from contract.checks.short_weights import lanes, lanes_shared, short_sparse, with_short_weights
from contract.checks.sign_sums import hashed_sign, total_of
from contract.checks.sparse_estimators import (
    check_hits,
    check_outcomes,
    check_simulated_errors,
    check_sparse_errors,
    check_sparse_estimates,
    expected_tally,
    sparse_truth,
)

__all__ = [
    "LARGEST_LISTED",
    "as_bytes",
    "as_values",
    "check_certificate",
    "check_channel",
    "check_coverage",
    "check_estimator",
    "check_groups",
    "check_hits",
    "check_merging",
    "check_outcomes",
    "check_plumbing",
    "check_records",
    "check_sampler",
    "check_simulated_errors",
    "check_sparse_errors",
    "check_sparse_estimates",
    "check_sparse_sampler",
    "component_of",
    "composed",
    "examples",
    "expected_tally",
    "hashed_sign",
    "label",
    "lanes",
    "lanes_shared",
    "many",
    "messages",
    "mixed",
    "parts_of",
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
