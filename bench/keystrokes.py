"""What a keystroke costs the language server, in CPU time: `python -m bench.keystrokes
DIR`, of `bench/generate.py`.

Letters are typed every 120 ms, into a model and into a .yml file; what is worked out in
the pause after them counts.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.lsp.editor import Editor, editing, run, stop_servers

KEYS = 30
BETWEEN_S = 0.12


async def measure(root: Path) -> None:
    async with editing(root, plain=True) as editor:
        model = sorted(
            path.relative_to(root).as_posix()
            for path in (root / "models").rglob("*.sql")
        )[500]
        stream = min(
            path.relative_to(root).as_posix()
            for path in (root / "streams").rglob("*.yml")
        )
        editor.open(model)
        editor.open(stream)
        await _rest(editor)
        print(f"start: {_cpu_ms(editor):.0f} ms of CPU time")
        text, declared = editor.texts[model], editor.texts[stream]
        await _type(
            editor, "a comment of a model", model, lambda at: f"{text}-- {'x' * at}\n"
        )
        await _type(editor, "a column of a model", model, partial(_with_column, text))
        await _type(
            editor,
            "a comment of a .yml file",
            stream,
            lambda at: f"{declared}# {'x' * at}\n",
        )


def _with_column(text: str, length: int) -> str:
    return text.replace("SELECT", f"SELECT {'a' * length} AS b,", 1)


async def _type(
    editor: Editor, what: str, path: str, text: Callable[[int], str]
) -> None:
    before = _cpu_ms(editor)
    for at in range(KEYS):
        editor.type(path, text(at + 1))
        await asyncio.sleep(BETWEEN_S)
    await _rest(editor)
    print(f"{what}: {(_cpu_ms(editor) - before) / KEYS:.0f} ms a keystroke")


async def _rest(editor: Editor) -> None:
    """Wait until the server has nothing to do."""
    while True:
        before = _cpu_ms(editor)
        await asyncio.sleep(1.5)
        if _cpu_ms(editor) - before < 20:
            return


def _cpu_ms(editor: Editor) -> float:
    process = editor.client._server
    assert process is not None
    words = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) * 1000 / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    run(measure(Path(sys.argv[1]).absolute()))
    stop_servers()
