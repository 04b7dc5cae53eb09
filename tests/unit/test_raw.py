"""How large the records in files are taken to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesql.engine.sources.read_files import RECORD_BYTES, measure_record


@pytest.mark.parametrize(
    "glob",
    ["landing", "landing/*", "landing/*.jsonl", "land*/2.jsonl", "{landing,other}/*"],
)
def test_a_record_is_measured_on_the_first_file_with_lines(
    tmp_path: Path, glob: str
) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "1.jsonl").write_text("")
    (tmp_path / "landing" / "2.jsonl").write_text("123456789\n" * 30)
    (tmp_path / "landing" / "3.jsonl").write_text("1\n")
    assert measure_record(f"{tmp_path}/{glob}") == 10


def test_a_record_that_cannot_be_measured_has_a_fixed_size(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    for glob in (
        f"{tmp_path}/none/*",
        f"{tmp_path}/empty",
        f"{tmp_path}/loop",
        "s3://bucket/landing/*",
    ):
        assert measure_record(glob) == RECORD_BYTES, glob
