"""Processes that can be interrupted, however the tests were started.

A shell that starts a command in the background lets it ignore SIGINT (`pytest &` in a script does), and every process
below inherits that.
"""

import signal


def hears_interrupts() -> None:
    """For `preexec_fn`: in the new process, SIGINT does what it does at a terminal."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
