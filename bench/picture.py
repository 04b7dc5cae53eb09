"""The pictures of the benchmarks, as SVG. Needs matplotlib, which no benchmark needs
without its picture."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure  # type: ignore[import-not-found]

COLOURS = {"lakesql": "#1d4ed8", "by hand": "#b45309", "Connect": "#4b5563"}


@dataclass(frozen=True, slots=True)
class Bars:
    """One figure of each side: a bar each, the shorter the better."""

    label: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Lines:
    """A diagram of a line for each side: points of what is varied, to the right, and of
    what was measured, upwards."""

    title: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


def draw_bars(title: str, panels: Sequence[Bars], file: Path) -> None:
    """Panels side by side, each with a scale of its own."""
    figure, axes = _figure((1, len(panels)), (2.6 * len(panels), 2.4), title)
    for panel, axis in zip(panels, axes, strict=True):
        names = list(panel.values)
        bars = axis.barh(
            names, list(panel.values.values()), color=[COLOURS[name] for name in names]
        )
        axis.bar_label(bars, fmt="{:,.0f}", padding=3)
        axis.set_title(panel.label, fontsize=10)
        axis.invert_yaxis()
        axis.margins(x=0.25)
        axis.xaxis.set_visible(False)
        axis.spines[["top", "right", "bottom"]].set_visible(False)
    _save(figure, file)


def picture_file(text: str) -> Path:
    """The file of `--picture`. Raises `ArgumentTypeError` before anything is measured
    if it could not be drawn."""
    if find_spec("matplotlib") is None:
        raise ArgumentTypeError("a picture needs matplotlib: pip install matplotlib")
    return Path(text)


def draw_lines(
    title: str,
    panels: Sequence[Lines],
    labels: tuple[str, str],
    file: Path,
    *,
    logarithmic: bool = False,
) -> None:
    """Two panels a row, all with one scale. `labels` are those of what is varied and of
    what was measured."""
    from matplotlib.ticker import EngFormatter  # type: ignore[import-not-found]

    rows = -(-len(panels) // 2)
    figure, axes = _figure((rows, 2), (8, 3.2 * rows), title, sharex=True, sharey=True)
    for panel, axis in zip(panels, axes, strict=True):
        for (name, points), colour in zip(
            panel.lines.items(), ("#1d4ed8", "#b45309"), strict=False
        ):
            axis.plot(*zip(*points, strict=True), marker="o", label=name, color=colour)
        axis.set_title(panel.title, fontsize=10)
        axis.grid(axis="y", color="#e5e7eb")
        axis.spines[["top", "right"]].set_visible(False)
        if logarithmic:
            axis.set_xscale("log", base=2)
            axis.set_yscale("log", base=2)
            axis.set_xticks(
                sorted({x for points in panel.lines.values() for x, _ in points})
            )
            axis.xaxis.set_major_formatter(EngFormatter(sep=" "))
            axis.yaxis.set_major_formatter("{x:g}")
    if not logarithmic:
        axes[0].set_ylim(0, None)  # of all panels, once all have their points
    figure.supxlabel(labels[0], fontsize=10)
    figure.supylabel(labels[1], fontsize=10)
    axes[0].legend(frameon=False)
    _save(figure, file)


def _figure(
    shape: tuple[int, int], size: tuple[float, float], title: str, **options: Any
) -> tuple[Figure, Sequence[Any]]:
    from matplotlib import pyplot  # type: ignore[import-not-found]

    pyplot.rcParams["svg.hashsalt"] = "lakesql"  # the same figures make the same file
    pyplot.rcParams["svg.fonttype"] = "none"  # letters as text, not as curves
    pyplot.rcParams["font.sans-serif"] = ["Helvetica", "Arial", "DejaVu Sans"]
    figure, axes = pyplot.subplots(
        *shape, figsize=size, squeeze=False, layout="constrained", **options
    )
    figure.suptitle(title, fontsize=11, fontweight="bold")
    return figure, list(axes.flat)


def _save(figure: Figure, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None})
