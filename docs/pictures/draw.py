"""The elements of a picture as SVG, with colours that are readable on a light page and
on a dark one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

STYLE = """
  .page { fill: #ffffff; stroke: #d0d7de; }
  text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328; }
  .small { font-size: 12px; }
  .dim { fill: #57606a; }
  .head { font-weight: 600; }
  .code { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, monospace; font-size: 12px; }
  .line { fill: none; stroke: #57606a; stroke-width: 1.4; }
  .tip { fill: #57606a; }
  .grid { stroke: #d8dee4; }
  .plain { fill: #f6f8fa; stroke: #8c959f; }
  .blue { fill: #ddf4ff; stroke: #0969da; }
  .green { fill: #dafbe1; stroke: #1a7f37; }
  .amber { fill: #fff8c5; stroke: #9a6700; }
  .red { fill: #ffebe9; stroke: #cf222e; }
  .violet { fill: #fbefff; stroke: #8250df; }
  .mark { stroke: #8250df; stroke-width: 2; stroke-dasharray: 5 3; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; stroke: #3d444d; }
    text { fill: #f0f6fc; }
    .dim { fill: #9198a1; }
    .line { stroke: #9198a1; }
    .tip { fill: #9198a1; }
    .grid { stroke: #2f353d; }
    .plain { fill: #1c2128; stroke: #6e7681; }
    .blue { fill: #0c2d4d; stroke: #4493f8; }
    .green { fill: #10321b; stroke: #3fb950; }
    .amber { fill: #3a2d05; stroke: #d29922; }
    .red { fill: #45171a; stroke: #f85149; }
    .violet { fill: #2a1a47; stroke: #ab7df8; }
    .mark { stroke: #ab7df8; }
  }
"""

TIP = """<marker id="tip" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">
<path class="tip" d="M0 0l9 4l-9 4z"/></marker>"""


def svg(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    """A picture: the page's ground, then its parts. The title is for those who hear
    it."""
    body = "\n".join(["", *parts])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' role="img">\n<title>{escape(title)}</title>\n<style>{STYLE}</style>\n<defs>{TIP}</defs>\n'
        f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>{body}\n</svg>\n'
    )


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """Words whose line stands at y."""
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def lines(
    x: float, y: float, words: Sequence[str], kind: str = "", anchor: str = "start"
) -> str:
    """Words in several lines, the first at y."""
    return "\n".join(
        text(x, y + 17 * at, line, kind, anchor) for at, line in enumerate(words)
    )


def box(x: float, y: float, width: float, height: float, kind: str) -> str:
    """A box in a colour."""
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5"/>'


def chip(x: float, y: float, width: float, words: str, kind: str) -> str:
    """A word of code in a box, 24 high."""
    return box(x, y, width, 24, kind) + text(
        x + width / 2, y + 16, words, "code", "middle"
    )


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "line") -> str:
    """A straight line."""
    return f'<path class="{kind}" d="M{x1:g} {y1:g}L{x2:g} {y2:g}"/>'


def arrow(*points: tuple[float, float]) -> str:
    """A line through the points, with a tip at its end."""
    way = "L".join(f"{x:g} {y:g}" for x, y in points)
    return f'<path class="line" d="M{way}" marker-end="url(#tip)"/>'


def table(
    x: float,
    y: float,
    widths: Sequence[int],
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
) -> str:
    """A table of small cells, 19 a row, below its head at y."""
    parts = []
    for at, cells in enumerate([head, *rows]):
        left = x
        for width, cell in zip(widths, cells, strict=True):
            parts.append(
                text(left, y + 19 * at, cell, "small dim" if at == 0 else "code")
            )
            left += width
        parts.append(
            line(x, y + 19 * at + 5, x + sum(widths) - 6, y + 19 * at + 5, "grid")
        )
    return "\n".join(parts)
