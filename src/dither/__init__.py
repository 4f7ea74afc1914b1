"""dither: noise added on purpose, so that the crowd comes out clear and nobody in it does.

Plan, run and analyse the collection of data under local and shuffle differential privacy. Public names stand in the
stub beside this file, for type checkers and for Python alike. They are imported when they are first used, so that a
client that only randomizes stays light.
"""

import lazy_loader

__version__ = "0.2.0"

__getattr__, _, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
