"""The comments that open a compiled file, read again as pairs: what happens around the
statements."""

from __future__ import annotations


def read_header(text: str) -> tuple[tuple[str, str], ...]:
    """The label and the sentence of each comment behind the first, which says where the
    model is from."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines()[1:]:
        if not line.startswith("-- "):
            break
        said = line.removeprefix("-- ")
        if said.startswith("  ") and found:
            label, before = found[-1]
            found[-1] = label, f"{before} {said.strip()}"
            continue
        label, _, rest = said.partition(": ")
        found.append((label, rest))
    return tuple(found)
