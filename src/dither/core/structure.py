"""Structures: how a report is put together, where somebody has to know more than the channel says.

A mechanism declares its `structure`. The contract suite (`dither.testing`) writes the laws of these down once
more, from their definitions, and compares. A plain mechanism needs none: its channel says it all.
"""

PLAIN = "plain"
BRANCHES = "branches"  # a public coin, then one of several laws, each on a lattice of its own
CODEBOOK = "codebook"  # a public seed names codewords, of which the nearest are favoured
GRIDS = "grids"  # a public group, then a cell of its grid by an oracle
BOXES = "boxes"  # a public group, then a hashed box of a hierarchy
BUCKETS = "buckets"  # a hash function, then a bucket; those that a user's items hit are favoured
NOISY_SUM = "noisy sum"  # a hash function, then the sum of the signs that it gives to a user's items, with noise
SUM_SIGN = "sign of a sum"  # the same, but of the sum only its sign
ONE_ITEM = "one item"  # of a user's items one is drawn
PREFIXES = "prefixes"  # a hash function of a prefix, then a bucket; words are searched for
UNARY_ITEM = "unary item"  # of a user's items one is drawn, and encoded as bits
POINTS = "points"  # of a lattice in a ball: too many to list even for two dimensions
