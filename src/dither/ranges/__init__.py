"""Grids and queries over several attributes: "what share is between 20 and 40, and earns over 50,000?".

Each user answers one grid over one or two attributes; the analyst gets answers to any range query over any attributes
(paper 004). The names here are found when they are first asked for, so that a device that only randomizes does not
import what answers queries.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
