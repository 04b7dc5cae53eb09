"""Secrets are found however they are written down."""

import base64
import html
import io
import json
from urllib.parse import quote, quote_plus

from hypothesis import given
from hypothesis import strategies as st

from lakesql.errors import Place, Problem
from lakesql.events import ModelFinished
from lakesql.secrets import MASK, SHORTEST, find_secrets, guard, without_secrets
from tests.cases import each_of

SECRET = 'p@ss "w/rd\\ +ü&:=?~*'
SECRETS = find_secrets({"LAKESQL_SECRET_X": SECRET, "OTHER": "visible"})


@each_of(
    "written",
    [
        SECRET,
        json.dumps({"x": SECRET}),
        json.dumps({"x": SECRET}, ensure_ascii=False),
        json.dumps(json.dumps(SECRET)),
        repr(SECRET),
        quote(SECRET, safe=""),
        quote(SECRET),
        quote_plus(SECRET),
        quote(SECRET, safe="").lower(),
        quote_plus(SECRET, safe="*").replace("~", "%7E"),  # as Java's URLEncoder
        html.escape(SECRET),
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
        base64.b64encode(f"user:{SECRET}".encode()).decode(),
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        f"'{SECRET}'".replace("'", "''"),
    ],
)
def test_a_secret_is_masked_in_every_form(written: str) -> None:
    text = SECRETS.redact(f"before {written} after")
    assert text.startswith("before ") and text.endswith(" after") and MASK in text
    for form in SECRETS.forms:
        assert form not in text


@given(st.text(min_size=SHORTEST + 4), st.binary(max_size=9), st.binary(max_size=9))
def test_base64_hides_nothing_whatever_stands_around(
    secret: str, before: bytes, after: bytes
) -> None:
    encoded = secret.encode(errors="replace")
    secret = encoded.decode()
    text = base64.b64encode(before + encoded + after).decode()
    assert find_secrets({"LAKESQL_SECRET_X": secret}).are_in(text)


@each_of(
    ("value", "part"),
    [
        ("client:s3cret-of-it", "s3cret-of-it"),
        ("client:s3cret:of-it", "s3cret:of-it"),
        ("abcd", "abcd"),
        ("s3cret%40of-it", "s3cret@of-it"),
        ("postgresql://me:hush-hush@host/db", "hush-hush"),
        ("postgresql://me:hush%40hush@host/db", "hush@hush"),
        ("with-a-newline\n", "with-a-newline"),
        ("client:with-a-newline\n", "with-a-newline"),
        ("org.X required password='quietly';", "quietly"),
        ('org.X required password="qui\\"etly";', 'qui"etly'),
        ('org.X required username="u" password="quietly";', "quietly"),
        ("-----BEGIN KEY-----\nMIIEabcdef\n-----END KEY-----", "MIIEabcdef"),
    ],
)
def test_the_secret_part_of_a_value_is_one_too(value: str, part: str) -> None:
    assert find_secrets({"LAKESQL_SECRET_X": value}).redact(f"<{part}>") == f"<{MASK}>"


def test_a_value_that_is_no_utf8_is_masked() -> None:
    secret = b"\xff\xfeabcd".decode(errors="surrogateescape")
    assert find_secrets({"LAKESQL_SECRET_X": secret}).redact(
        f"x {secret} {quote(secret, errors='surrogateescape')}"
    ) == (f"x {MASK} {MASK}")


def test_a_value_that_no_quote_closes_is_read_in_no_time() -> None:
    assert find_secrets({"LAKESQL_SECRET_X": 'password="' + r"\a" * 200}).forms


def test_other_variables_and_the_shortest_values_are_none() -> None:
    assert not find_secrets(
        {"OTHER": "visible", "LAKESQL_SECRET_A": "", "LAKESQL_SECRET_B": "abc"}
    )
    assert SECRETS.redact("visible") == "visible"


def test_of_overlapping_secrets_the_longest_is_masked() -> None:
    assert (
        find_secrets(
            {"LAKESQL_SECRET_A": "abcd", "LAKESQL_SECRET_B": "abcd-efgh"}
        ).redact("abcd-efgh")
        == MASK
    )


def test_secrets_are_removed_from_an_environment() -> None:
    assert without_secrets({"LAKESQL_SECRET_X": "a", "PATH": "b"}) == {"PATH": "b"}


def test_every_text_of_an_event_is_redacted_and_nothing_else() -> None:
    problem = Problem(
        "batch-failed", f"what {SECRET}", SECRET, "fix", Place("models/a.sql", 3)
    )
    event = ModelFinished(
        "a", "error", 1, 2, 3, 4, 5, 6, (problem,), f"because {SECRET}", at_ms=7
    )
    found = SECRETS.redact_fields(event)
    assert found.problems == (
        Problem("batch-failed", f"what {MASK}", MASK, "fix", Place("models/a.sql", 3)),
    )
    assert (found.model, found.rows, found.because) == ("a", 3, f"because {MASK}")
    assert find_secrets({}).redact_fields(event) is event
    assert (
        find_secrets(
            {"LAKESQL_SECRET_X": "batch", "LAKESQL_SECRET_Y": "error"}
        ).redact_fields(event)
        == event
    )


def test_a_guarded_stream_writes_no_secret_and_is_otherwise_the_same() -> None:
    buffer = io.BytesIO()
    stream = guard(
        io.TextIOWrapper(buffer, encoding="ascii", errors="backslashreplace"), SECRETS
    )
    print(f"a {SECRET} b ü", file=stream, flush=True)
    assert buffer.getvalue() == b"a *** b \\xfc\n"
    assert (stream.encoding, stream.errors) == ("ascii", "backslashreplace")
