"""The pictures of the docs, by their files' names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from docs.pictures.flow import draw_flow
from docs.pictures.late import draw_late
from docs.pictures.modes import draw_modes
from docs.pictures.verdicts import draw_verdicts
from docs.pictures.which_mode import draw_which_mode

PICTURES: Mapping[str, Callable[[], str]] = {
    "flow.svg": draw_flow,
    "late.svg": draw_late,
    "modes.svg": draw_modes,
    "verdicts.svg": draw_verdicts,
    "which-mode.svg": draw_which_mode,
}
