"""What can be asked, one file a question: how it is encoded, priced, estimated, refined and named.

- `question`: what every question says of itself; `catalogue`: the questions that there are, and how a text is read
- `means`, `histograms`, `distributions`, `cumulative`: of one attribute; `shares`: what histograms and distributions
  have in common
- `keys`: of keys that users hold some of, with a value each
- `ranges`: of several attributes together
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
