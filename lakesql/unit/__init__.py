"""Unit tests of models, run on DuckDB."""
