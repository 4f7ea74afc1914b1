"""Federated learning in which nobody is trusted: devices train, and report their whole update at random.

A round of federated averaging: the server sends its parameters; every device that takes part trains for a few local
steps (`local_training`), clips its *whole update* to the norm `clip`, and sends one randomized report of it through a
`VectorReporter`; the server tallies the reports, estimates the mean update, and moves by `server_rate` times that.

**Why the whole update.** 001 (section 6.1.1) adds noise to the last of E local steps. The transmitted model then holds
the other E - 1 without any noise: with Gaussian noise for (1, 1e-5) and 20 steps the promise fails with probability
.988 (ERRATA). Here everything that a device sends about its records is one report of a mechanism with a certificate.

**The budget** is one public schedule. Either `epsilon` and `delta` are what a device promises over *all* its rounds,
and what a round may cost follows, or they are the price of a round and the total follows (`budget="round"`): see
`round_accounting`. Each device keeps an account; when it is spent, the next round is refused (`BudgetError`). A real
`Device` keeps it in a `privacy.Ledger`, where a round is a period: asked again about the same round, it repeats itself.

**Who takes part** is a public rota: with `participants` fewer than the devices, each reports in fewer rounds and has
more to spend in each of them. No secrecy of that choice is counted on.

**Weights** are public, and let devices count for more than others; promises stay what they are (`weighting`).

**Shuffled reports** (`shuffled=True`) promise more to whoever sees them in no order: `central`.

**Nothing leaks**: an update with a NaN or an infinity counts as zero, and its report is drawn like any other.

What goes wrong: the noise of a report grows with the number d of parameters, so the mean over n devices is worth
something only if n times what a report tells is a match for d. An update of norm `clip` through the best mechanism has
an error of about clip^2 d / min(epsilon, epsilon^2) a report; `explain` says what that makes for a round. Small models,
many devices, few rounds.

`federation` is the server, with simulated devices; `device` a real one, and what it knows beforehand. `partition` says
who has which records, `local_training` what an update is, `encoders` how it travels, `round_accounting` what it costs.
`weighting` says how devices count, and `ldpvec` is 001's way to report a direction.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
