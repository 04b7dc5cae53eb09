"""The commands of README.md, for those who run them: `python docs/readme.py 2` prints
the second one."""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def fenced(language: str) -> list[str]:
    """The contents of the README's fenced blocks of a language, in order."""
    return re.findall(
        rf"^```{language}\n(.*?)^```$",
        README.read_text("utf-8"),
        re.DOTALL | re.MULTILINE,
    )


if __name__ == "__main__":
    print(fenced("bash")[int(sys.argv[1]) - 1], end="")
