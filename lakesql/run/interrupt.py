"""Turns Ctrl-C and SIGTERM into a flag, so that a run ends between batches and not in
the middle of one."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)

SHOW_CURSOR = b"\x1b[?25h"
"""The escape sequence that shows the terminal's cursor again, which the live view
hides."""


class Interrupt(threading.Event):
    """Set once the run has been asked to end."""

    def arm(self) -> None:
        """From now on, the first Ctrl-C or SIGTERM sets the flag, and a second one ends
        the process at once.

        Ending at once loses nothing: a batch that was not published is written again.
        Outside the main thread, where no handler may be installed, nothing is caught.
        """
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                signal.signal(number, self._handle)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.is_set():
            if os.isatty(1):
                os.write(1, SHOW_CURSOR)
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
            # process 1 of a container is not ended by a signal's default action
            os._exit(128 + number)
        self.set()


@contextmanager
def catch_signals() -> Iterator[Interrupt]:
    """Yields a flag that is still to be armed. Until then nothing is written, and
    SIGTERM ends the command as Ctrl-C does.

    The former signal handlers are restored afterwards.
    """
    if threading.current_thread() is not threading.main_thread():
        yield Interrupt()
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    signal.signal(signal.SIGTERM, _end)
    try:
        yield Interrupt()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
