"""The `sort_order` of a rewrite: what Iceberg's procedure was seen to take, and what it
refused."""

from __future__ import annotations

import pytest

from lakesql.project.sort_order import SortTerm, parse_sort_order
from tests.cases import each_of

TAKEN = {
    "id": [SortTerm(("id",))],
    "id asc nulls last, n desc": [SortTerm(("id",)), SortTerm(("n",))],
    "id NULLS FIRST": [SortTerm(("id",))],
    "`id`": [SortTerm(("id",))],
    "`a b` DESC , s.x": [SortTerm(("a b",)), SortTerm(("s.x",))],
    "bucket(4, id)": [SortTerm(("id",), "bucket")],
    "truncate(2, id) desc": [SortTerm(("id",), "truncate")],
    "id DESC, bucket(3,n)": [SortTerm(("id",)), SortTerm(("n",), "bucket")],
    "identity(id)": [SortTerm(("id",), "identity")],
    "days(at), HOURS(at)": [SortTerm(("at",), "days"), SortTerm(("at",), "hours")],
    "zorder(id,n)": [SortTerm(("id", "n"), "zorder")],
    "zorder(`id`,n) DESC": [SortTerm(("id", "n"), "zorder")],
    "ZORDER(id), zorder(n)": [SortTerm(("id",), "zorder"), SortTerm(("n",), "zorder")],
}
REFUSED = [
    *(
        "id, zorder(id,n)",
        "zorder(id), n",
        "id nulls",
        "a b c d",
        "id,",
        ",id",
        "zorder()",
        "id + 1",
        "4",
        "id desc asc",
    ),
    *(
        "zorder(bucket(4,id),n)",
        "upper(id)",
        "bucket(id)",
        "days(id, n)",
        "truncate(2)",
        "zorder(id, 4)",
        "id;",
        "(id",
    ),
    *("days(id) days(n)", "id -- the newest", "`id", "id DESC NULLS LAST FIRST"),
]


@each_of("text", TAKEN)
def test_terms_are_read(text: str) -> None:
    assert list(parse_sort_order(text)) == TAKEN[text]
    assert parse_sort_order(f"  {text}  ") == parse_sort_order(text)


@each_of("text", REFUSED)
def test_what_is_no_list_of_terms_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_sort_order(text)
