"""The mechanisms whose deviation is known beforehand: all but those for ranges and words.

A report about ranges has no moments of its own: it tells about the cells of one grid of many, whose oracles are in the
registry too, and what is read off all of them is a posterior, not a mean of calibrated reports. Their error is
predicted by `dither.ranges.error_prediction`. Which words are on a list depends on all reports: what will be found is
predicted by `dither.mechanisms.search_forecast`.
"""

import dither

WITHOUT_MOMENTS = ("ranges", "words")  # families
NAMES = [name for name, cls in dither.registry.items() if cls.family not in WITHOUT_MOMENTS]
