"""Ctrl-C and SIGTERM as a flag: a run ends between batches, not in the middle of one."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)

SHOW_CURSOR = b"\x1b[?25h"
"""What gives a terminal its cursor back, which the live view hides."""


class Interrupt(threading.Event):
    """Set once somebody has asked the run to end."""


@contextmanager
def catch_signals() -> Iterator[Interrupt]:
    """While this is open, the first Ctrl-C or SIGTERM sets the flag, and a second one ends the process at once.

    Ending at once loses nothing: a batch that was not published is written again. Outside the main thread, where no
    handler may be set, nothing is caught.
    """
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return

    def handle(number: int, _frame: FrameType | None) -> None:
        if interrupt.is_set():
            if os.isatty(1):
                os.write(1, SHOW_CURSOR)
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        interrupt.set()

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
