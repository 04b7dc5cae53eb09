"""Commands with the new source: `plan` and all others by their names, and `crash
PROJECT`, a run that is killed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lakesql.cli.main import run_command
from tests.new_source import kept


def main(arguments: Sequence[str]) -> int:
    kept.register()
    # what reads with Spark, and what does not, as with any source
    if arguments[0] in ("crash", "rewind"):
        from tests.new_source import spark_kept

        spark_kept.register()
    if arguments[0] == "crash":
        from tests.crash import runner

        runner.main(arguments[1])
        return 0
    return run_command(list(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
