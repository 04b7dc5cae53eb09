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
    interrupt.arm()
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
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, check=False
    )
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, b"")


def test_a_second_signal_ends_the_first_process_of_a_container() -> None:
    """As for the first process of a container."""
    program = PROGRAM.replace(
        "with catch", "signal.raise_signal = lambda number: None\nwith catch"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, check=False
    )
    assert done.returncode == 128 + signal.SIGTERM


STARTING = """
import os, signal
from lakesql.run.interrupt import catch_signals
try:
    with catch_signals():
        os.kill(os.getpid(), signal.SIGTERM)
finally:
    print("closed")
"""


def test_sigterm_before_a_run_begins_closes_what_is_open() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTING], stdout=subprocess.PIPE, check=False
    )
    assert (done.returncode, done.stdout) == (128 + signal.SIGTERM, b"closed\n")
