"""The range that a finding underlines: a word, or a quoted text."""

from __future__ import annotations

from lakesql.errors import Place
from lakesql.lint.finding import word_span
from tests.cases import each_of


@each_of(
    ("marked", "word"),
    [
        ("- name: ^returns", "returns"),
        ("- name: ^returns\n  topic: x", "returns"),
        ("- name: ^returns\r\n", "returns"),
        ("- name: ^my_returns # why", "my_returns"),
        ("^a", "a"),
        ("keys=[^'order_id']", "'order_id'"),
        ("keys=[^'order", "'"),
        ("FROM ^(SELECT 1)", "("),
        ("name: ^", "?"),  # a place behind the text is one character wide
    ],
)
def test_a_range_is_that_of_the_word_at_its_place(marked: str, word: str) -> None:
    before, text = marked[: marked.index("^")], marked.replace("^", "")
    span = word_span(text, Place("m.yml", 1, len(before) + 1))
    assert (span.start.column, span.width) == (len(before) + 1, len(word))
