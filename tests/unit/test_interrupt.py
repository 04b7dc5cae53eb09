"""What is left behind where a second signal ends a run at once."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys

PROGRAM = """
import os, signal
from lakesql.run.interrupt import catch_signals
with catch_signals() as interrupt:
    os.kill(os.getpid(), signal.SIGINT)
    assert interrupt.is_set()
    os.kill(os.getpid(), signal.SIGTERM)
"""


def test_the_second_signal_gives_the_terminal_its_cursor_back() -> None:
    terminal, output = pty.openpty()
    done = subprocess.run([sys.executable, "-c", PROGRAM], stdout=output, check=False)
    os.close(output)
    assert done.returncode == -signal.SIGTERM
    assert os.read(terminal, 100) == b"\x1b[?25h"
    os.close(terminal)


def test_no_terminal_is_given_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, b"")
