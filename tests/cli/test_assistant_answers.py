"""Answers to an assistant: their length, and the secrets that are masked in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesql.cli.assistant import bounded as module
from lakesql.cli.assistant.bounded import SHORTENED, bounded
from lakesql.cli.assistant.masked import protected_values
from tests.cases import each_of

PARTS = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(max_size=300)),
    lambda parts: st.one_of(
        st.lists(parts, max_size=30),
        st.dictionaries(st.text(max_size=8), parts, max_size=30),
    ),
    max_leaves=60,
)


@given(answer=st.dictionaries(st.text(max_size=8), PARTS, max_size=30))
def test_an_answer_is_as_short_as_it_has_to_be(answer: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_CHARACTERS", 400)
        found = bounded(answer)
    text = json.dumps(found, ensure_ascii=False)
    if len(json.dumps(answer, ensure_ascii=False)) <= 400:
        assert found == answer
    else:
        assert found.pop("shortened") == SHORTENED
        assert len(json.dumps(found, ensure_ascii=False)) <= 400
    assert len(text) < 600


def test_many_short_values_are_shortened_too() -> None:
    answer = {"models": {f"m{number}": "x" * 20 for number in range(3_000)}}
    assert len(json.dumps(bounded(answer))) < 61_000


@each_of(
    ("line", "secret"),
    [
        ('password: "{abc123}"', "{abc123}"),
        ("password: '{abc123}'", "{abc123}"),
        ("password: abc123", "abc123"),
        ("sasl: {password: abc123, mechanism: PLAIN}", "abc123"),
        ("token: \"{{ env_var('TOKEN') }}\"", ""),
    ],
)
def test_a_secret_that_profiles_hold_is_masked(
    tmp_path: Path, line: str, secret: str
) -> None:
    (tmp_path / "profiles.yml").write_text(f"shop:\n  {line}\n")
    secrets = protected_values([tmp_path], {})
    said = f"is {secret}." if secret else "PLAIN"
    assert secrets.redact(said) == ("is ***." if secret else "PLAIN")
