"""The key that masks of recordings are made with."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from lakesql.errors import ProfileError
from lakesql.run.samples.record import (
    SECRET_BYTES,
    SECRET_FILE,
    _read_secret,
    _write_secret,
)


def test_the_masking_key_is_stable_and_readable_by_its_user_alone(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    secret = _read_secret(home)
    assert len(secret) == SECRET_BYTES and _read_secret(home) == secret
    (file,) = home.iterdir()
    assert file.name == SECRET_FILE and file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "content", [b"", b"x" * (SECRET_BYTES - 1), b"x" * (SECRET_BYTES + 1)]
)
def test_a_key_that_was_cut_off_is_refused_and_stays(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / SECRET_FILE).write_bytes(content)
    with pytest.raises(ProfileError) as error:
        _read_secret(tmp_path)
    (problem,) = error.value.problems
    assert problem.condition == "not-accessible" and "remove it" in problem.fix
    assert (tmp_path / SECRET_FILE).read_bytes() == content


def test_a_key_that_could_not_be_written_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lakesql.run.samples.record.secrets.token_bytes", fail)
    with pytest.raises(OSError, match="No space"):
        _read_secret(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_key_that_is_there_first_stays(tmp_path: Path) -> None:
    secret = _read_secret(tmp_path)
    _write_secret(tmp_path / SECRET_FILE)
    assert _read_secret(tmp_path) == secret


def test_a_masking_key_is_created_on_a_file_system_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("lakesql.run.samples.record.os.link", refuse)
    secret = _read_secret(tmp_path)
    _write_secret(tmp_path / SECRET_FILE)
    assert _read_secret(tmp_path) == secret
    assert (tmp_path / SECRET_FILE).stat().st_mode & 0o777 == 0o600


def test_two_at_once_agree_on_one_key(tmp_path: Path) -> None:
    barrier = Barrier(8)

    def read(_: int) -> bytes:
        barrier.wait()
        return _read_secret(tmp_path)

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(read, range(8)))) == 1
    assert [file.name for file in tmp_path.iterdir()] == [SECRET_FILE]
