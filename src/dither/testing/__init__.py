"""The contract: what every mechanism must keep, as functions that raise AssertionError where it is broken.

`check_mechanism(MyMechanism)` checks all of it, for a mechanism of anybody's; the functions that it calls are here too,
one by one. They read what a mechanism declares and know no names. dither's own tests run them over the registry, break
the code on purpose, and expect them to notice. No pytest is needed; SciPy is, for quantiles.

Exact things are compared exactly: the production sampler runs over every tape of short words, and its counts must be
the channel's fractions. A statistical check states its false-alarm probability.

- `certificates`: what is promised, against the channel written out.
- `samplers`: the production sampler over all tapes, against the channel. `short_tapes` makes the tapes short,
  `rounding` and `sign_sums` say once more, from the definitions, what the sampler should do before it draws.
- `estimators` and `sparse_estimators`: unbiased, with the stated moments, by enumeration of all reports.
- `seeded_collections`: merging, plumbing, coverage.
- `behaviour`: stored and loaded, what is refused, which words are read.
- `tallies`: what one report adds to the counts, and tallies that claim more.
- `contract`: all of them in one call.
- `tapes`, `sign_vectors`: all tapes of short words, all vectors of signs.
- `examples`: the mechanisms, what kind each is, values for it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
