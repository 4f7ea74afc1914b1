"""What shares will cost that are told in two phases: errors that are known before anything is collected."""

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
REPORTS = (1e3, 1e4, 1e5, 1e6, 1e7)


def error_below(epsilon: float, reports: float, *, places: bool = False) -> float:
    """The error of a share below a threshold."""
    from dither.mechanisms.cumulative_error import hardest_error

    return 0.6 * hardest_error(epsilon, reports, places=places)


def error_of_bin(epsilon: float, reports: float, bins: int, *, places: bool = False) -> float:
    """The error of the share of a bin."""
    return 0.6 * error_below(epsilon, reports, places=places)
