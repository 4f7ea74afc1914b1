"""Flower: the device randomizes in a mod, the server debiases in a strategy.

Flower runs federated learning over real devices. A client's *mod* stands between the training function and the
network; a server's *strategy* says what is sent and how replies are put together. The two here are the ends of one
`VectorReporter`:

- `Randomizer` (device, in `client`): clips the update as a whole, randomizes it, and sends that one report.
- `Debiasing` (server, in `server`): checks and tallies the reports, and moves the model by the mean that they estimate.

Both ends count the rounds of one public schedule, and either refuses the one after the last. A server is not trusted
with anything: it names the fingerprint of the reporter that it expects, and a device with another one refuses. It
cannot choose epsilon. `messages` holds what travels between them, and `local_grid` devices in this process
(`LocalGrid`).
"""

import warnings

import lazy_loader

from dither.errors import require

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of what Flower imports: not for our users to mend
    require("flwr.serverapp.strategy", "federated")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
