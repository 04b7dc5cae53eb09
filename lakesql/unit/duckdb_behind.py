"""DuckDB, which is imported behind Pulsar's client where that is installed.

Both are made with pybind11. Where DuckDB comes first, its errors arrive as a
`RuntimeError` from then on.
"""

from __future__ import annotations

from contextlib import suppress

with suppress(ModuleNotFoundError):
    import _pulsar  # noqa: F401

import duckdb

__all__ = ["duckdb"]
