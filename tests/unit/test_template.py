"""Templates: what is read of them, what they render to (Jinja itself is the oracle),
and what they cannot do."""

from __future__ import annotations

import re
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import StrictUndefined, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from lakesql.errors import Problem, ProjectError
from lakesql.template import check, evaluate
from lakesql.template.evaluate import Names
from lakesql.template.library import FILTERS, METHODS, TESTS
from lakesql.template.template import (
    Macros,
    Rendered,
    Template,
    parse_macros,
    parse_template,
    render_template,
)
from tests.cases import each_of
from tests.share import a_few

VARS = {
    "days": 7,
    "name": "x",
    "list": ["b", "a", "B"],
    "map": {"k": "v", "deep": {"n": [1, 2]}},
    "empty": [],
}
TARGET = {"name": "dev", "namespace": "shop", "catalog": "lake"}
NAMES = Names(
    lambda name: f"`s`.`{name}`",
    lambda name: f"`r`.`{name}`",
    "lake.shop.m",
    VARS,
    TARGET,
    False,
)
MACROS = parse_macros(
    [
        (
            "macros/a.sql",
            "{# money #}\n{% macro cents(column, digits=2) %}({{ column }} / 100){{ digits }}{% endmacro %}\n",
        ),
        (
            "macros/b.sql",
            "{% macro total(c) -%}\n  sum({{ cents(c) }})\n{%- endmacro %}\n"
            "{% macro fail(x) %}\n{{ x + 1 }}{% endmacro %}",
        ),
        (
            "macros/c.sql",
            "{% macro twice(a) %}{{ caller(a) }}, {{ caller(a ~ a) }}{% endmacro %}",
        ),
    ]
)


def parse(source: str, macros: Macros = MACROS) -> Template:
    return parse_template("models/m.sql", source, macros)


def render(source: str, macros: Macros = MACROS) -> Rendered:
    return render_template(parse(source, macros), NAMES)


def problems_of(source: str, macros: Macros = MACROS) -> list[Problem]:
    with pytest.raises(ProjectError) as caught:
        render(source, macros)
    return list(caught.value.problems)


def conditions_of(source: str) -> list[str]:
    return [problem.condition for problem in problems_of(source)]


@cache
def jinja_environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, keep_trailing_newline=True
    )
    macros = "".join(macro.text for macro in MACROS.by_name.values())
    macro_module: Any = environment.from_string(macros).module
    environment.globals.update(
        {name: getattr(macro_module, name) for name in MACROS.by_name}
    )
    return environment


def by_jinja(source: str) -> str:
    """What Jinja makes of it: an implementation that shares nothing with ours but the
    parser."""
    return (
        jinja_environment()
        .from_string(source)
        .render(
            config=lambda **_: "",
            stream=NAMES.stream,
            ref=NAMES.ref,
            this=NAMES.this,
            var=lambda name, default=None: VARS.get(name, default),
            target=TARGET,
            is_full_refresh=NAMES.is_full_refresh,
        )
    )


# What is read.


def test_config_is_read_with_the_places_of_keys_and_values() -> None:
    config = parse(
        "-- é\n  {{ config(\n    mode='upsert',\n    keys = ['a',\n 'b'], n=-1, f=1.5, on=true, no=none,"
        " t=('x', 'y'), m={'k': [1]}, one=('a' 'b'),\n) }}\nSELECT 1\n"
    ).config
    assert config.plain() == {
        "mode": "upsert",
        "keys": ["a", "b"],
        "n": -1,
        "f": 1.5,
        "on": True,
        "no": None,
        "t": ["x", "y"],
        "m": {"k": [1]},
        "one": "ab",
    }
    assert str(config.place) == "models/m.sql:2:6"
    assert str(config.keys["mode"]) == "models/m.sql:3:5"
    assert str(config.entries()["mode"].place) == "models/m.sql:3:10"
    keys = config.entries()["keys"]
    assert (str(config.keys["keys"]), str(keys.place)) == (
        "models/m.sql:4:5",
        "models/m.sql:4:12",
    )
    assert [str(item.place) for item in keys.items()] == [
        "models/m.sql:4:13",
        "models/m.sql:5:2",
    ]
    assert (str(config.keys["n"]), str(config.entries()["n"].place)) == (
        "models/m.sql:5:8",
        "models/m.sql:5:10",
    )
    assert str(config.entries()["t"].place) == "models/m.sql:5:41"
    assert str(config.entries()["m"].keys["k"]) == "models/m.sql:5:56"


def test_a_file_without_config_has_an_empty_one() -> None:
    assert parse("SELECT 1").config.plain() == {}


def test_edges_vars_and_reads_come_from_the_tree_in_branches_that_never_run_too() -> (
    None
):
    template = parse(
        "{% if is_full_refresh and var('days', 1) > 3 %}{{ stream('a') }}{% endif %}\n"
        "{% for x in [1] if x > 3 %}{{ ref('b') }}{% endfor %}{{ total(ref('c')) }}\n"
        "{% set t = target.name ~ target['namespace'] %}{{ stream('a') }}"
    )
    assert [(item.name, str(item.place)) for item in template.streams] == [
        ("a", "models/m.sql:1:58"),
        ("a", "models/m.sql:3:58"),
    ]
    assert [(item.name, str(item.place)) for item in template.refs] == [
        ("b", "models/m.sql:2:35"),
        ("c", "models/m.sql:2:67"),
    ]
    assert template.vars == {"days"}
    assert template.reads == {"is_full_refresh", "target"}
    assert template.macros == {"total", "cents"}
    assert parse("{{ this }}").reads == {"this"}


def test_macros_that_a_macro_of_the_model_calls_are_reached() -> None:
    template = parse("{% macro mine(c) %}{{ total(c) }}{% endmacro %}{{ mine('x') }}")
    assert template.macros == {"total", "cents"}


def test_the_text_of_a_macro_is_its_own() -> None:
    assert (
        MACROS.by_name["total"].text
        == "{% macro total(c) -%}\n  sum({{ cents(c) }})\n{%- endmacro %}"
    )
    assert (
        MACROS.by_name["fail"].text == "{% macro fail(x) %}\n{{ x + 1 }}{% endmacro %}"
    )


@pytest.mark.filterwarnings("error")
def test_escapes_of_a_regular_expression_stand_for_themselves() -> None:
    assert parse(r"""{{ config(a='\d+\\.\n\'') }}""").config.plain() == {
        "a": "\\d+\\.\n'"
    }


# What is rendered.

TEMPLATES = [
    "",
    "\n",
    "SELECT 1",
    "SELECT 'ünï' -- {# gone #}\n",
    "{{ config(mode='append') }}\nSELECT * FROM {{ stream('o') }} JOIN {{ ref('c') }} -- {{ this }}\n",
    "a\r\nb {{ 1 }}\r\n\r\nc\rd",
    "{{- 'a' -}}  b  {%- if true -%}  c  {%- endif +%}  d\n",
    "{% raw %}{{ x }}{% endraw %} {%- raw -%} {% y %} {%- endraw -%} z",
    "{{ target.name }}{{ target['catalog'] }}{{ var('days') }}{{ var('gone', 'd') }}{{ is_full_refresh }}",
    "{% for c in var('list') %}{{ loop.index }}{{ c }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for k, v in var('map').items() %}{{ k }}={{ v | string }};{% endfor %}",
    "{% for x in [] %}a{% else %}none{% endfor %}{% for x in 'ab' %}{{ x }}{{ loop.revindex0 }}{% endfor %}",
    "{% for x in range(10) if x is odd %}{{ x }}{{ loop.length }}{{ loop.first }}{% endfor %}",
    "{% for x in [1, 2, 3] %}{{ loop.previtem if not loop.first }}{{ x }}{% endfor %}",
    "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}",
    "{% set a, b = 1, [2, 3] %}{{ a }}{{ b[1] }}{{ b[-1] }}{{ b[:1] | string }}{{ 'hello'[1:4:2] }}{{ 'abc'[::-1] }}",
    "{% set t %}x{{ 1 }}{% endset %}[{{ t }}]{% set u | upper %}y{{ t }}{% endset %}{{ u }}",
    "{% filter upper %}a{{ 'b' }}{% endfilter %}{% filter replace('a', 'b') | upper %}aa{% endfilter %}",
    "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}",
    "{% if 1 > 2 %}a{% elif var('days') == 7 %}b{% elif true %}x{% else %}c{% endif %}",
    "{% if 0 %}a{% elif '' %}b{% else %}c{% endif %}{{ 'y' if [] else 'n' }}[{{ 'y' if none is none }}]",
    "{{ cents('x') }} {{ cents(column='y', digits=3) }} {{ total('z') }} {{ cents('a', 1) | upper }}",
    "{% call(v) twice('p') %}<{{ v }}>{% endcall %}",
    "{% macro m(a) %}{{ 'y' if a in [1, 2] and a not in [3] else 'n' }}{% endmacro %}{{ m(1) }}{{ m(3) }}",
    "{% macro m(a, b=a ~ '!') %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) }}",
    "{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ 7 % 4 }} {{ 2 ** 10 }} {{ -3 }} {{ +3 }} {{ 1.5e3 }} {{ 1_000 }}",
    "{{ 1 < 2 <= 2 }} {{ 1 == 1.0 }} {{ 'a' in 'cat' }} {{ 3 not in [1, 2] }} {{ 1 != 2 and not 0 or 5 }}",
    "{{ 'a' ~ 1 ~ none ~ [1] | string }} {{ 'ab' * 3 }} {{ ([1] + [2]) | string }} {{ (1, 'a') | string }} "
    "{{ {'a': 1}['a'] }} {{ {'a': 1}.a }}",
    "{{ ' Ab '.strip() }}{{ 'a,b'.split(',') | string }}{{ 'x'.join(['a', 'b']) }}{{ 'ab'.startswith('a') }}",
    "{{ 'aaa'.replace('a', 'b', 2) }}{{ 'ab cd'.title() }}{{ var('map').get('q', 1) }}{{ var('map').deep.n[0] }}",
    "{{ [3, 1, 2] | sort | join(', ') }} {{ var('list') | sort(reverse=true) | string }} "
    "{{ var('list') | unique | list | string }}",
    "{{ [1, 2, 3] | sum }} {{ [1, 2] | first }} {{ 'ab' | last }} {{ [1, 5] | max }} {{ ['B', 'a'] | min }}",
    "{{ ['a', 'b'] | map('upper') | join }} {{ [{'n': 1}, {'n': 2}] | map(attribute='n') | sum }}",
    "{{ [1, 2, 3] | select('odd') | join }} {{ [1, 2, 3] | reject('gt', 1) | join }} {{ [0, 1] | select | join }}",
    "{{ [{'n': 1}, {'n': 2}] | selectattr('n', 'eq', 2) | list | string }} {{ {'b': 1, 'a': 2} | dictsort | string }}",
    "{{ 'x y-z' | title }} {{ ' a ' | trim }} {{ 'ab' | reverse }} {{ 'Ab' | capitalize }} {{ 'a\nb' | indent(2) }}",
    "{{ '7' | int + 1 }} {{ 'x' | int(3) }} {{ '1.5' | float }} {{ 2.567 | round(1) }} {{ 2.1 | round(0, 'ceil') }}",
    "{{ -3 | abs }} {{ [1, 2] | length }} {{ 3 | string ~ 'x' }}",
    "{{ '' | default('d', true) }} {{ var('map').no | d(5) }}",
    "{{ var('map').no is defined }} {{ var('map').k is defined }} {{ 1 is number }} {{ 'a' is string }}",
    "{{ 4 is divisibleby 2 }} {{ 'A' is upper }} {{ {} is mapping }} {{ [] is sequence }} {{ 3 is in [3] }}",
    "{{ '%s_%s' % ('a', 1) }} {{ '%05.1f|%-4d|%x' % (2.25, 3, 255) }} {{ '%(k)s%%' % var('map') }} {{ '%s' % [1] }}",
    "{{ '%s.%s' | format('a', 'b') }} {{ '%(a)s' | format(a=none) }} {{ '%r %5s' | format('x', 1) }}",
    "{{ '{}-{}'.format(1, 'a') }} {{ '{1}{0}{a}'.format(1, 2, a='x') }} {{ '{{}}'.format() }}",
    "{{ '{:>5}|{:05.1f}|{:,}|{!r}|{:{w}}'.format('a', 2.25, 12345, 'q', 1, w=3) }} {{ '{text}'.format(text=[1]) }}",
    "{% set ns = namespace(n=0, seen=[]) %}{% for c in 'abc' %}{% set ns.n = ns.n + 1 %}"
    "{% set ns.seen = ns.seen + [c] %}{% endfor %}{{ ns.n }}{{ ns.seen | join(',') }}",
    "{% set ns = namespace({'a': 1}, b=2) %}{% set ns.c %}x{{ ns.a }}{% endset %}{{ ns.b }}{{ ns.c }}",
    "{% macro mark(ns) %}{% set ns.hit = true %}{% endmacro %}{% set ns = namespace(hit=false) %}"
    "{{ mark(ns) }}{{ ns.hit }}{{ ns.miss is defined }}",
    "{% set rows = [{'k': 'a', 'n': 2}, {'k': 'b', 'n': 1}, {'k': 'A', 'n': 3}] %}"
    "{{ rows | map(attribute='n') | join(',') }} {{ rows | map(attribute='gone', default='.') | join }} "
    "{{ rows | selectattr('n', '>', 1) | map(attribute='k') | join }} "
    "{{ rows | rejectattr('x', 'defined') | list | string }} "
    "{% for k, found in rows | groupby('k') %}{{ k }}:{{ found | sum('n') }};{% endfor %}"
    "{% for g in rows | groupby('k', case_sensitive=true) %}{{ g.grouper }}{{ g.list | length }}"
    "{{ g[0] | string }}{% endfor %}",
    "{{ [{'a': {'b': 2}}, {'a': {'b': 1}}] | sort(attribute='a.b') | map(attribute='a.b') | join }} {{ 42 | round }}",
    "{{ {'b': 1, 'a': 2} | dictsort(by='value', reverse=true) | string }} "
    "{{ ['a', 'A'] | unique(case_sensitive=true) | join }}",
    "{{ '\\n' }}{{ '{{' ~ '}}' }}{{ \"it's\" }}{{ 'it''s' }}{{ 'a' 'b' }}{{ true }}{{ none }}",
]


@each_of("source", TEMPLATES)
def test_renders_what_jinja_renders(source: str) -> None:
    assert render(source).text == by_jinja(source)


_ATOMS = st.sampled_from(
    [
        "1",
        "0",
        "2.5",
        "'a'",
        "'Bc d'",
        "true",
        "none",
        "[1, 2]",
        "var('list')",
        "var('map').k",
        "v",
        "this",
        "loop.index",
    ]
)


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "//", "==", "<", "in", "and", "or"])
    filters = st.sampled_from(
        [
            "upper",
            "length",
            "default(3)",
            "join('-')",
            "first",
            "list",
            "string",
            "int",
            "sort",
        ]
    )
    tests = st.sampled_from(
        ["string", "number", "defined", "not none", "sequence", "odd"]
    )
    return st.one_of(
        st.builds("({} {} {})".format, inner, operators, inner),
        st.builds("({} | string ~ {} | string)".format, inner, inner),
        st.builds("({} | {})".format, inner, filters),
        st.builds("({} is {})".format, inner, tests),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("(not {})".format, inner),
    )


@settings(deadline=None)
@given(st.lists(st.recursive(_ATOMS, _grow, max_leaves=5), min_size=1, max_size=3))
def test_expressions_mean_what_they_mean_to_jinja(expressions: list[str]) -> None:
    for expression in expressions:
        source = (
            f"{{% for v in ['q', 2] %}}[{{{{ {expression} | string }}}}]{{% endfor %}}"
        )
        try:
            expected = by_jinja(source)
        except Exception:  # whatever Jinja refuses with, ours refuses too
            assert conditions_of(source)[0] in {"template-failed", "undefined-variable"}
            continue
        assert render(source).text == expected


_TAGS = [
    "set",
    "endset",
    "for",
    "in",
    "endfor",
    "if",
    "elif",
    "else",
    "endif",
    "macro",
    "endmacro",
    "call",
    "endcall",
]
_WORDS = [
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "#}",
    "{%-",
    "-}}",
    "\n",
    "\r",
    "(",
    ")",
    "[",
    "]",
    ",",
    "=",
    "|",
    ".",
    "~",
    "+",
]
_NAMES = [
    "x",
    "stream",
    "config",
    "var",
    "this",
    "cents",
    "loop",
    "caller",
    "filter",
    "raw",
    "endraw",
    "'a'",
    "1",
    "-",
]


@settings(deadline=None)
@given(st.lists(st.sampled_from([*_TAGS, *_WORDS, *_NAMES]), max_size=25))
def test_any_text_is_rendered_or_refused(words: list[str]) -> None:
    try:
        rendered = render(" ".join(words))
    except ProjectError as error:
        assert all(problem.place for problem in error.problems)
    else:
        assert all(
            rendered.place(offset).line for offset in range(len(rendered.text) + 1)
        )


TAGS = ("{%{a} if true {b}%} y{%{a} endif {b}%}", "{{{a} 'z' {b}}}", "{#{a} note {b}#}")
COMMENTS = (
    "",
    "-- it's only `x",
    "/* -- */",
    "' -- '",
    "'a''--b'",
    '"--"',
    "-- {{{a} 'c' {b}}}",
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(COMMENTS),
            st.sampled_from(TAGS),
            st.sampled_from("- "),
            st.sampled_from("- "),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_no_dash_of_a_tag_joins_a_line_to_a_comment(
    lines: list[tuple[str, str, str, str]],
) -> None:
    """What stands in no `--` comment of the file is that of the same file without
    comments, rendered by Jinja."""
    source, bare = "", ""
    for number, (comment, tag, a, b) in enumerate(lines):
        written = tag.replace("{a}", a).replace("{b}", b)
        in_line = comment.replace("{a}", a).replace("{b}", b)
        source += f" w{number} {in_line}\n{written}\n"
        bare += f" w{number} {'' if comment.startswith('--') else in_line}\n{written}\n"
    kept = re.sub(
        r"""('[^']*'|"[^"]*"|/\*.*?\*/)|--[^\n]*""",
        lambda found: found[1] or "",
        render(source).text,
    )
    assert "".join(kept.split()) == "".join(by_jinja(bare).split())


NOTES = parse_macros(
    [
        (
            "macros/notes.sql",
            "{% macro note() %}n > 0 -- why{% endmacro %}\n"
            "{% macro lines() %}n > 0 -- why\n{%- endmacro %}\n"
            "{% macro outer() %}{{ note() }}\n{%- if true %} AND n > 1{% endif %}\n{% endmacro %}\n"
            "{% macro told() %}-- {{ caller() }} told\n{% endmacro %}",
        )
    ]
)


@each_of(
    ("source", "lost", "place"),
    [
        ("WHERE {{ note() }}\n{%- if true %} AND n > 1{% endif %}", "AND n > 1", "1:7"),
        ("WHERE {{ note() }}\n{{- ' AND n > 1' }}", "AND n > 1", "1:7"),
        ("WHERE {{ note() }} AND n > 1", "AND n > 1", "1:7"),
        ("WHERE {{ 'n > 0 -- why' }} AND n > 1", "AND n > 1", "1:7"),
        ("WHERE {{ '(' ~ note() }}) AND n > 1", ") AND n > 1", "1:7"),
        (
            "{% set a %}{{ note() }}{% endset %}\nWHERE {{ a }} AND n > 1",
            "AND n > 1",
            "2:7",
        ),
        ("{% filter lower %}{{ note() }}{% endfilter %} AND n > 1", "AND n > 1", "1:4"),
        ("WHERE\n {{ outer() }}", "AND n > 1", "2:2"),
        (
            "{% call told() %}a\n b{% endcall %}c{{ note() }}{{ note() }}",
            "n > 0 -- why",
            "2:17",
        ),
        ("{% for c in [1, 2] %}{{ c }} -- column{% endfor %}", "2 -- column", "1:30"),
        ("{% if true %}a -- b{% else %}c\n{% endif %} AND n > 1", "AND n > 1", "1:16"),
        (
            "{% if true %}'{% else %}'{% endif %}x' -- b\n{%- if true %} AND n > 1{% endif %}",
            "AND n > 1",
            "1:40",
        ),
        ("SELECT n -{{ -1 }} AS m", "1 AS m", "1:10"),
    ],
)
def test_no_text_falls_into_a_comment_that_another_one_opens(
    source: str, lost: str, place: str
) -> None:
    (problem,) = problems_of(source, NOTES)
    assert (problem.condition, str(problem.place)) == (
        "template-failed",
        f"models/m.sql:{place}",
    )
    assert f"'{lost}'" in problem.what


def test_a_comment_that_a_macro_opens_within_another_is_named_with_its_place() -> None:
    (problem,) = problems_of("WHERE {{ outer() }}", NOTES)
    assert "macros/notes.sql:4:20" in problem.why


@each_of(
    ("source", "text"),
    [
        ("WHERE {{ note() }}\nAND n > 1", "WHERE n > 0 -- why\nAND n > 1"),
        ("WHERE {{ note() }}  \nAND n > 1", "WHERE n > 0 -- why  \nAND n > 1"),
        ("WHERE {{ lines() }} AND n > 1", "WHERE n > 0 -- why\n AND n > 1"),
        (
            "a -- {{ note() }} and {{ 'b' }}{# gone\n #} more\nc",
            "a -- n > 0 -- why and b more\nc",
        ),
        ("-- {% for c in [1, 2] %}{{ c }}, {% endfor %}all\nc", "-- 1, 2, all\nc"),
        ("{% call told() %}a{{ 'b' }}{% endcall %}c", "-- ab told\nc"),
        ("SELECT '{{ 'a--b' }} c', n - {{ -1 }}", "SELECT 'a--b c', n - -1"),
    ],
)
def test_a_comment_keeps_what_stands_on_its_line(source: str, text: str) -> None:
    assert render(source, NOTES).text == text


@each_of(
    "before",
    [
        r"r'\'",
        r"R'\'",
        'r"\\"',
        r"'a\'--'",
        r"`a\`",
        r"/* \*/",
        "/* /* */ -- */",
        r"bar'\''",
    ],
)
def test_a_comment_is_found_behind_each_literal_of_spark(before: str) -> None:
    source = f"WHERE a = {before} -- note\n{{%- if true %}} AND n > 1{{% endif %}}"
    assert render(source).text == f"WHERE a = {before} -- note\n AND n > 1"
    assert render(source.replace("-- note", "")).text == f"WHERE a = {before} AND n > 1"


@each_of(
    ("source", "fix"),
    [
        ("n IN {{ var('map').deep.n }}", "({{ value | join(', ') }})"),
        ("n IN {{ var('list') }}", "('{{ value | join(\"', '\") }}')"),
        ("n IN {{ (1, 2) }}", "({{ value | join(', ') }})"),
        ("{{ 'n IN ' ~ var('list') }}", "join"),
        ("{% macro m(a) %}{{ a }}{% endmacro %}{{ m(var('list')) }}", "join"),
        ("{{ var('map') }}", "value['key']"),
        ("{{ namespace(a=1) }}", "value['key']"),
    ],
)
def test_a_list_or_a_mapping_is_not_written_as_python_shows_it(
    source: str, fix: str
) -> None:
    (problem,) = problems_of(source)
    assert (
        problem.condition == "template-failed" and problem.place and fix in problem.fix
    )


def test_a_macro_takes_more_arguments_where_it_reads_them() -> None:
    macros = parse_macros(
        [
            (
                "macros/a.sql",
                "{% macro some(a, b=2) %}{{ a }}{{ b }}{{ varargs | string }}{% endmacro %}",
            ),
            (
                "macros/b.sql",
                "{% macro named(a) %}{{ a }}{% for k, v in kwargs.items() %}{{ k }}{{ v }}{% endfor %}{% endmacro %}",
            ),
            ("macros/c.sql", "{% macro own(varargs) %}{{ varargs }}{% endmacro %}"),
        ]
    )
    assert (
        render("{{ some(1) }}|{{ some(1, 3) }}|{{ some(1, 3, 4, 5) }}", macros).text
        == "12()|13()|13(4, 5)"
    )
    assert (
        render(
            "{{ named(1) }}|{{ named(1, x=2, y='z') }}|{{ named(y=1, a=2) }}", macros
        ).text
        == "1|1x2yz|2y1"
    )
    for wrong in (
        "{{ some(1, c=2) }}",
        "{{ named(1, 2) }}",
        "{{ own(1, 2) }}",
        "{{ own(1, x=2) }}",
    ):
        with pytest.raises(ProjectError) as caught:
            render(wrong, macros)
        assert [problem.condition for problem in caught.value.problems] == [
            "template-failed"
        ]
    local = "{% macro m() %}{{ varargs | join('-') }}{{ kwargs | length }}{% endmacro %}{{ m('a', 'b', c=1) }}"
    assert render(local).text == by_jinja(local)


def test_a_macro_that_calls_itself_without_end_is_named_once() -> None:
    macros = parse_macros(
        [("macros/a.sql", "{% macro m(a) %}{{ m(a) }}{% endmacro %}")]
    )
    with pytest.raises(ProjectError) as caught:
        render("{{ m(1) }}", macros)
    (problem,) = caught.value.problems
    assert problem.condition == "template-too-large" and problem.why.count("'m'") == 1


def test_config_renders_to_nothing_and_the_lines_behind_it_stay() -> None:
    assert render("{{ config(\n  mode='append',\n) }}\nSELECT 1").text == "\nSELECT 1"


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_every_character_of_the_sql_has_its_place(newline: str) -> None:
    source = newline.join(
        [
            "{{ config(mode='append') }}",
            "SELECT a,",
            "  {{ cents('b') }} AS b {#- gone -#}  , c",
            "FROM {%- for x in [1, 2] %} {{ stream('s') }} t{{ x }},{% endfor %} end",
        ]
    )
    rendered = render(source)

    def place(text: str, occurrence: int = 0) -> str:
        offset = -1
        for _ in range(occurrence + 1):
            offset = rendered.text.index(text, offset + 1)
        return str(rendered.place(offset)).removeprefix("models/m.sql:")

    assert place("SELECT") == "2:1"
    assert place("a,") == "2:8"
    assert place("(b") == place("/ 100") == place("100)2") == "3:3"
    assert place("AS b") == "3:20"
    assert place(", c") == "3:39"
    assert place("FROM") == "4:1"
    assert place("`s`") == place("`s`", 1) == "4:29"
    assert place(" t1") == place(" t2") == "4:46"
    assert place("end") == "4:69"
    assert str(rendered.place(len(rendered.text))) == "models/m.sql:4:72"
    assert str(rendered.place(len(rendered.text) + 100)) == "models/m.sql:4:72"


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_texts_that_stand_in_the_place_of_others_have_the_places_of_these(
    data: st.DataObject,
) -> None:
    rendered = render("SELECT a,\n  {{ cents('b') }} AS b\nFROM {{ stream('s') }} t")
    cuts = data.draw(
        st.lists(st.integers(0, len(rendered.text)), max_size=6, unique=True)
    )
    ends = iter(sorted(cuts)[: len(cuts) // 2 * 2])
    edits = [
        (start, end, data.draw(st.text("xyz", min_size=1, max_size=9)))
        for start, end in zip(ends, ends, strict=True)
    ]
    found = rendered.edited(edits)
    texts, places, at = [], [], 0
    for start, end, text in (*edits, (len(rendered.text), len(rendered.text), "")):
        texts += [rendered.text[at:start], text]
        places += [rendered.place(offset) for offset in range(at, start)] + [
            rendered.place(start)
        ] * len(text)
        at = end
    assert found.text == "".join(texts)
    assert [found.place(offset) for offset in range(len(found.text))] == places


def test_an_empty_text_has_a_place() -> None:
    assert str(render("").place(0)) == "models/m.sql:1:1"


# What is refused, with its place.


@each_of(
    ("source", "condition", "place"),
    [
        ("SELECT\n {{ strem('a') }}", "undefined-variable", "2:5"),
        ("{% if x is defined %}{% endif %}", "undefined-variable", "1:7"),
        ("{{ var('map').no }}", "undefined-variable", "1:14"),
        ("\n{{ var('nowhere') }}", "undefined-variable", "2:4"),
        ("{{ target.nam }}", "undefined-variable", "1:4"),
        ("{{ env_var('X') }}", "undefined-variable", "1:4"),
        (
            "{% if false %}{% set a = 1 %}{% endif %}{{ a }}",
            "undefined-variable",
            "1:44",
        ),
        ("{{ caller() }}", "undefined-variable", "1:4"),
        ("{{ stream }}", "name-not-called", "1:4"),
        ("{{ config }}", "name-not-called", "1:4"),
        ("{{ target }}", "name-not-called", "1:4"),
        ("{{ cents | upper }}", "name-not-called", "1:4"),
        ("{{ stream(var('x')) }}", "reference-not-literal", "1:4"),
        ("{{ stream('a', 'b') }}", "reference-not-literal", "1:4"),
        ("{{ ref() }}", "reference-not-literal", "1:4"),
        ("{{ ref(*['a']) }}", "reference-not-literal", "1:4"),
        ("{{ ref('a' ~ 'b') }}", "reference-not-literal", "1:4"),
        ("{{ var(this) }}", "reference-not-literal", "1:4"),
        ("{{ config(mode=var('m')) }}", "config-not-literal", "1:16"),
        ("{{ config(keys=['a', 'b' ~ 'c']) }}", "config-not-literal", "1:22"),
        ("{{ config({'mode': 'append'}) }}", "config-not-literal", "1:4"),
        ("{{ config(**{}) }}", "config-not-literal", "1:4"),
        ("{{ config(a=1) }}\n{{ config(b=1) }}", "duplicate-config", "2:4"),
        ("{{ config(a=1, a=2) }}", "duplicate-config", "1:16"),
        ("{{ config(m={'a': 1, 'a': 2}) }}", "duplicate-config", "1:22"),
        ("{% if true %}{{ config(a=1) }}{% endif %}", "config-misplaced", "1:17"),
        ("{{ config(a=1) ~ '' }}", "config-misplaced", "1:4"),
        ("{% set this = 1 %}", "reserved-name", "1:4"),
        ("{% for stream in [1] %}{% endfor %}", "reserved-name", "1:4"),
        ("{% macro cents(x) %}{% endmacro %}", "duplicate-macro", "1:4"),
        ("SELECT {{ 'a' ", "template-syntax", "1:11"),
        ("a\n{% endif %}", "template-syntax", "2:4"),
        ("a\n  {# never", "template-syntax", "2:5"),
        ("{{ 1 +\n + * 2 }}", "template-syntax", "2:4"),
        ("{{ (1 }}", "template-syntax", "1:7"),
        ("{{ '\\x' }}", "template-syntax", "1:4"),
        ("{{ 1" + "0" * 5000 + " }}", "template-syntax", None),
        ("{{ 1" + "0" * 50 + " }}", "template-too-large", "1:4"),
        ("{% include 'x' %}", "template-forbidden", "1:4"),
        ("{% import 'x' as y %}", "template-forbidden", "1:4"),
        ("{% from 'x' import y %}", "template-forbidden", "1:4"),
        ("{% extends 'x' %}", "template-forbidden", "1:4"),
        ("{% block b %}{% endblock %}", "template-forbidden", "1:4"),
        ("{% autoescape true %}{% endautoescape %}", "template-forbidden", "1:4"),
        ("{{ '\\ud800' }}", "template-syntax", "1:4"),
        ("{{ config(a='\\ud800') }}", "template-syntax", "1:13"),
        ("{{ 1 + 'a' }}", "template-failed", "1:4"),
        ("{{ 1 / 0 }}", "template-failed", "1:4"),
        ("{% for x in 3 %}{% endfor %}", "template-failed", "1:13"),
        ("{% for a, b in [1] %}{% endfor %}", "template-failed", "1:4"),
        ("{{ cents() }}", "template-failed", "1:4"),
        ("{{ cents(1, 2, 3) }}", "template-failed", "1:4"),
        ("{{ cents(1, colum=2) }}", "template-failed", "1:4"),
        ("{{ twice('a') }}", "template-failed", "1:4"),
    ],
)
def test_a_forbidden_template_is_refused_at_its_place(
    source: str, condition: str, place: str | None
) -> None:
    problem = problems_of(source)[0]
    assert problem.condition == condition
    assert problem.place
    assert problem.place.path == "models/m.sql"
    if place is not None:
        assert str(problem.place) == f"models/m.sql:{place}"


ATTACKS = [
    "{{ ''.__class__ }}",
    "{{ ''['__class__'] }}",
    "{{ ''['__cla' ~ 'ss__'] }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ stream.__globals__ }}",
    "{{ stream('a').__class__ }}",
    "{{ cents.__code__ }}",
    "{{ target.__class__ }}",
    "{{ target['__class__'] }}",
    "{{ this.encode() }}",
    "{{ '{0.__class__}'.format(1) }}",
    "{{ '{0[__class__]}'.format({'a': 1}) }}",
    "{{ '{0[a]}'.format({'a': 1}) }}",
    "{{ '{.__class__}'.format(1) }}",
    "{{ '{a.real}'.format(a=1) }}",
    "{{ '{:{0.real}}'.format(1) }}",
    "{{ 'a'.format_map({}) }}",
    "{{ 'a'.upper }}",
    "{{ var('list').append(1) }}",
    "{{ var('map').update({}) }}",
    "{{ var('map').pop('k') }}",
    "{{ 'a' | attr('upper') }}",
    "{{ 'a' | pprint }}",
    "{{ 'a' | center(9) }}",
    "{{ 'a' | xmlattr }}",
    "{{ ['a'] | map('attr', 'upper') }}",
    "{{ ['a'] | map(attribute='__class__') }}",
    "{{ ['a'] | map(attribute='upper') }}",
    "{{ ['a'] | selectattr('__class__') }}",
    "{{ ['a'] | sort(attribute='__len__') }}",
    "{{ ['a'] | select('callable') }}",
    "{{ 'a' is filter }}",
    "{{ ''.join(*[1]) }}",
    "{{ [1][0]() }}",
    "{{ (1)() }}",
    "{{ this() }}",
    "{% for x in [1] recursive %}{% endfor %}",
    "{% set x.y = 1 %}",
    "{% set x = {} %}{% set x.y = 1 %}",
    "{% set x = namespace() %}{% set x.__class__ = 1 %}",
    "{% set x = namespace() %}{{ x.__class__ }}",
    "{{ namespace }}",
    "{{ ([{'a': 1}] | groupby('a') | first).index }}",
    "{{ [{'a': 1}] | groupby('__class__.a') }}",
]


@each_of("source", ATTACKS)
def test_python_is_out_of_reach(source: str) -> None:
    problem = problems_of(source)[0]
    assert problem.condition in {"template-forbidden", "name-not-called"}
    assert problem.place
    assert problem.place.column


@each_of(
    "name",
    [
        "dict",
        "cycler",
        "joiner",
        "lipsum",
        "self",
        "context",
        "open",
        "__import__",
        "varargs",
        "kwargs",
        "g",
    ],
)
def test_other_names_are_unknown(name: str) -> None:
    assert conditions_of(f"{{{{ {name}() }}}}")[0] == "undefined-variable"
    assert conditions_of(f"{{{{ {name} }}}}")[0] == "undefined-variable"


WIDTHS = [
    "{{ '%999999999s' % 1 }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%.999999999f' % 1.5 }}",
    "{{ '%.99999999d' % 1 }}",
    "{{ '%(a)99999999s' % {'a': 1} }}",
    "{{ '%999999999999999999999999s' % 1 }}",
    "{{ ('%' ~ '0' * 1000000) % 1 }}",
    "{{ ('%(' * 500000) % 1 }}",
    "{{ ('{' * 1000000).format(1) }}",
    "{% for i in range(33000) %}{{" + " " * 900000 + "i}}{% endfor %}" + "{{ 1 / 0 }}",
    "{{ '%99999999s' | format(1) }}",
    "{{ '{:>10000000}'.format(1) }}",
    "{{ '{:>٩٩٩٩٩٩٩}'.format(1) }}",
    "{{ '{:.99999999f}'.format(1.5) }}",
    "{{ '{:{w}}'.format(1, w=99999999) }}",
    "{{ '{:>999999999999999999999999}'.format(1) }}",
    "{{ ('%s' * 1000) % ((['x' * 10000] * 1000) | map('string')) }}",
    "{{ ('%(a)s' * 10000) % {'a': 'x' * 100000} }}",
    "{{ ('{0}' * 10000).format('x' * 100000) }}",
    "{{ ('{0!r}' * 10000).format('x' * 100000) }}",
    "{% set s = [1] %}" + "{% set s = [s, s] %}" * 60 + "{{ '{}'.format(s) }}",
    "{% set s = [1] %}" + "{% set s = [s, s] %}" * 60 + "{{ '%s' % (s,) }}",
    "{{ 'a\nb' | indent(99999999) }}",
    "{{ ('a\n' * 1000) | indent('x' * 10000) }}",
    "{{ 2.5 | round(999999999) }}",
    "{{ 25 | round(-999999999) }}",
    "{{ 2.5 | round(999999999, 'floor') }}",
    "{{ [[1] * 1000] * 1000 | sum(start=[]) }}",
    "{{ ([[1]] * 1000) | sum(start=[]) }}",
    "{{ (['x' * 1000] * 1000) | sum(start='') }}",
    "{{ ('x' * 1000000) | list | map(attribute='0.' * 100000 ~ '0') | list }}",
    "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}{{ ns == ns.a }}",
    "{% set ns = namespace(s='x') %}{% for i in range(40) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "{% set s = (1, 1) %}" + "{% set s = (s, s) %}" * 60 + "{{ namespace([[s, 1]]) }}",
    "{{ ('f' * 1000000) | int(0, 16) }}",
]
DOUBLED = "{% set s = s ~ s %}" * 40
BOMBS = [
    "{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(9) %}{% endfor %}{% endfor %}{% endfor %}",
    "{% for a in range(99999999999) %}{% endfor %}",
    "{% for a in range(100000) %}{{ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' }}{% endfor %}",
    "{{ 'x' * 99999999 }}",
    "{{ [1] * 99999999 }}",
    "{{ 'x' * 1000000 * 1000 }}",
    "{% set s = 'x' %}" + DOUBLED + "{{ s }}",
    "{% set s = 'x' %}" + DOUBLED.replace("~", "+"),
    "{% set s = [1] %}" + DOUBLED.replace("~", "+"),
    "{% set s = [1] %}" + "{% set s = [s, s] %}" * 60 + "{{ s }}",
    "{% set s = [1] %}{% set t = [1] %}"
    + "{% set s = [s, s] %}{% set t = [t, t] %}" * 60
    + "{{ s == t }}",
    "{% set s = [1] %}" + "{% set s = [s, s] %}" * 60 + "{{ [s, s] | sort }}",
    "{% set s = [1] %}" + "{% set s = [s, s] %}" * 60 + "{{ [s] | unique }}",
    "{% set s = (1, 1) %}" + "{% set s = (s, s) %}" * 60 + "{{ {}.get(s) }}",
    "{% set s = (1, 1) %}" + "{% set s = (s, s) %}" * 60 + "{{ {}[s] }}",
    "{% set s = (1, 1) %}" + "{% set s = (s, s) %}" * 60 + "{{ {s: 1} }}",
    "{% set s = (1, 1) %}" + "{% set s = (s, s) %}" * 60 + "{{ s in {} }}",
    "{% set s = 'x' * 1000000 %}{% for i in range(50) %}{{ s }}{% endfor %}",
    "{% set s = 'x' * 1000000 %}{% for i in range(9999) %}{% if 'y' in s %}{% endif %}{% endfor %}",
    "{% set s = 'x' * 1000000 %}{% for i in range(9999) %}{% set t = s.strip('y') %}{% endfor %}",
    "{% set s = 'x' * 1000000 %}{{ s.strip('y' * 1000000 ~ 'x') }}",
    "{{ ('x' * 1000).replace('', 'y' * 10000) }}",
    "{{ ('x' * 100000) | replace('x', 'y' * 10000) }}",
    "{{ ('x' * 100000) | list | join('y' * 10000) }}",
    "{{ ('y' * 10000).join(['x'] * 10000) }}",
    "{{ 'a\n' * 100000 | indent(99999) }}",
    "{{ ('a\n' * 100000) | indent(100) }}",
    "{{ 9 ** 9 ** 9 ** 9 }}",
    "{{ 2 ** 64 }}",
    "{% set s = 1000 %}" + "{% set s = s * s %}" * 40,
    "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
    "{% macro f(x) %}{{ f(x) ~ f(x) }}{% endmacro %}{{ f(1) }}",
    "{% macro f(x) %}{% if x %}{{ f(x - 1) }}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(25) }}",
    "{% macro f() %}{% call f() %}{{ f() }}{% endcall %}{{ caller() }}{% endmacro %}{{ f() }}",
    "{% for i in range(20000) %}{% set x %}{{ 'x' * 10000 }}{% endset %}{% endfor %}",
    "{{ " + "(" * 2000 + "1" + ")" * 2000 + " }}",
    "{{ " + "[" * 2000 + "]" * 2000 + " }}",
    "{{ 1" + " + 1" * 20000 + " }}",
    "{{ 1" + " ~ 1" * 60000 + " }}",
    "{{ x" + ".y" * 20000 + " }}",
    "{{ 1" + " | abs" * 20000 + " }}",
    "{% if 1 %}" * 5000 + "{% endif %}" * 5000,
    "{% if 0 %}" + "{% elif 0 %}" * 5000 + "{% endif %}",
    "x" * (1 << 20) + "x",
]


@pytest.mark.parametrize(
    "source", a_few(BOMBS + WIDTHS, 9), ids=range(len(BOMBS + WIDTHS))
)
def test_a_template_ends_whatever_it_says(source: str) -> None:
    start = time.process_time()
    found = problems_of(source)[0]
    assert found.condition in {
        "template-too-large",
        "template-failed",
        "undefined-variable",
    }
    assert found.place
    assert time.process_time() - start < 5  # a bound against hanging, not a measurement


@pytest.mark.checks
def test_the_budget_ends_a_template_at_the_same_step_everywhere() -> None:
    """200,000 of them, six in each round of the loop: what is rendered on one machine
    is rendered on each."""
    loop = "{% for a in range(COUNT) %}{{ a }}{% endfor %}"
    assert render_template(parse(loop.replace("COUNT", "33332")), NAMES).text.endswith(
        "33331"
    )
    assert conditions_of(loop.replace("COUNT", "33333")) == ["template-too-large"]


def test_a_test_of_numbers_formats_no_text() -> None:
    assert conditions_of("{{ '%999999999s' is odd }}") == ["template-failed"]
    assert conditions_of("{{ '%999999999s' is divisibleby(2) }}") == ["template-failed"]


@each_of(
    "source",
    [
        "{{ '%s %s' % 1 }}",
        "{{ '%s' % (1, 2) }}",
        "{{ '%d' % 'a' }}",
        "{{ '%*d' % (5, 1) }}",
        "{{ '%c' % 55296 }}",
        "{{ '%y' % 1 }}",
        "{{ '100%' % () }}",
        "{{ '%(a(b))9s' % {'a(b)': 1} }}",
        "{{ '%(a)s' % {'b': 1} }}",
        "{{ '%s' | format(1, 2) }}",
        "{{ '{} {}'.format(1) }}",
        "{{ '{a}'.format(b=1) }}",
        "{{ '{:d}'.format('a') }}",
        "{{ '{:c}'.format(55296) }}",
        "{{ '{'.format(1) }}",
        "{{ '{:5}'.format([1]) }}",
    ],
)
def test_a_format_that_does_not_fit_its_values_is_refused(source: str) -> None:
    (problem,) = problems_of(source)
    assert (problem.condition, bool(problem.place and problem.place.column)) == (
        "template-failed",
        True,
    )


def test_all_problems_of_a_template_are_reported_together() -> None:
    found = problems_of(
        "{{ config(a=b) }}\n{{ stream(x) }}\n{{ y }}\n{{ 'a' | nope }}\n{{ ''.__class__ }}"
    )
    assert [
        (problem.condition, problem.place and problem.place.line) for problem in found
    ] == [
        ("config-not-literal", 1),
        ("reference-not-literal", 2),
        ("undefined-variable", 3),
        ("template-forbidden", 4),
        ("template-forbidden", 5),
    ]


# Macros.


@each_of(
    "use",
    [
        "config(a=1)",
        "stream('x')",
        "ref('x')",
        "var('x')",
        "this",
        "target.name",
        "is_full_refresh",
    ],
)
def test_a_macro_sees_its_arguments_and_other_macros_alone(use: str) -> None:
    with pytest.raises(ProjectError) as caught:
        parse_macros(
            [
                (
                    "macros/m.sql",
                    "\n{% macro m(a) %}\n{{ a }} {{ " + use + " }}{% endmacro %}",
                )
            ]
        )
    assert [
        (problem.condition, str(problem.place)) for problem in caught.value.problems
    ] == [("macro-not-pure", "macros/m.sql:3:12")]


@each_of(
    ("files", "found"),
    [
        (
            ["{% macro a() %}{% endmacro %}", "\n{% macro a() %}{% endmacro %}"],
            [("duplicate-macro", "f1.sql:2:4")],
        ),
        (["{% macro stream() %}{% endmacro %}"], [("reserved-name", "f0.sql:1:4")]),
        (["{# fine #}\n  SELECT"], [("not-a-macro", "f0.sql:2:3")]),
        (["{% set x = 1 %}"], [("not-a-macro", "f0.sql:1:4")]),
        (
            ["{% macro a() %}", "{% macro b() %}{{ x }}{% endmacro %}"],
            [("template-syntax", "f0.sql:1:14"), ("undefined-variable", "f1.sql:1:19")],
        ),
        (["{% macro a(this) %}{% endmacro %}"], [("reserved-name", "f0.sql:1:12")]),
    ],
)
def test_macro_files_refused(files: list[str], found: list[tuple[str, str]]) -> None:
    with pytest.raises(ProjectError) as caught:
        parse_macros([(f"f{index}.sql", text) for index, text in enumerate(files)])
    assert [
        (problem.condition, str(problem.place)) for problem in caught.value.problems
    ] == found


def test_an_error_in_a_macro_stands_at_the_call_and_names_the_macro() -> None:
    (problem,) = problems_of("SELECT\n  {{ fail('x') }}")
    assert (problem.condition, str(problem.place)) == (
        "template-failed",
        "models/m.sql:2:6",
    )
    assert "macros/b.sql:5:4" in problem.why


def test_an_error_in_a_call_block_is_the_models_own() -> None:
    (problem,) = problems_of("\n{% call(v) twice('p') %}\n{{ v + 1 }}{% endcall %}")
    assert (problem.condition, str(problem.place), problem.why) == (
        "template-failed",
        "models/m.sql:3:4",
        "",
    )


def test_a_macro_of_the_model_sees_what_the_model_sees() -> None:
    assert (
        render(
            "{% set d = 3 %}{% macro m() %}{{ stream('s') }}{{ d }}{% endmacro %}{{ m() }}"
        ).text
        == "`s`.`s`3"
    )


def test_dates_among_the_vars_are_their_text() -> None:
    import datetime

    names = Names(str, str, "t", {"day": datetime.date(2024, 1, 2)}, TARGET, True)
    assert (
        render_template(parse("{{ var('day') }} {{ is_full_refresh }}"), names).text
        == "2024-01-02 True"
    )


def test_macros_of_all_files_are_usable_everywhere_without_an_import() -> None:
    macros = parse_macros(
        [
            ("macros/z.sql", "{% macro quoted(name) %}`{{ name }}`{% endmacro %}"),
            (
                "macros/a/list.sql",
                "{% macro listed(names, prefix='') %}"
                "{% set ns = namespace(out=[]) %}"
                "{% for name in names %}{% set ns.out = ns.out + [quoted('%s%s' % (prefix, name))] %}{% endfor %}"
                "{{ ns.out | join(', ') }}{{ caller(names | length) if names else '' }}{% endmacro %}",
            ),
        ]
    )
    source = (
        "{% macro own(names) %}{% call(n) listed(names, prefix='c_') %} -- {{ n }} of {{ quoted('t') }}"
        "{% endcall %}{% endmacro %}{{ own(['a', 'b']) }}"
    )
    assert parse(source, macros).macros == {"quoted", "listed"}
    assert render(source, macros).text == "`c_a`, `c_b` -- 2 of `t`"


def test_the_macro_of_the_docs_writes_what_they_say() -> None:
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text("utf-8")
    found = re.search(
        r"```sql\n(\{% macro .*?)```\n\n`(.*?)` in a model writes `(.*?)`",
        page,
        re.DOTALL,
    )
    assert found
    assert (
        render(found[2], parse_macros([("macros/sums.sql", found[1])])).text == found[3]
    )


def test_a_name_of_another_function_cannot_be_given_to_a_macro() -> None:
    assert conditions_of("{% macro namespace() %}{% endmacro %}") == ["reserved-name"]
    assert render("{% set namespace = 'shop' %}{{ namespace }}").text == "shop"


@each_of(
    ("source", "condition", "place"),
    [
        ("{% set ns = namespace() %}\n{{ ns.gone }}", "undefined-variable", "2:6"),
        ("{{ [{'a': 1}] | map(attribute='b') | join }}", "undefined-variable", "1:17"),
        ("{{ [{'a': 1}] | selectattr('b') | list }}", "undefined-variable", "1:17"),
        ("{{ [{'a': 1}, {}] | groupby('a') }}", "undefined-variable", "1:21"),
        ("{{ [{}] | groupby('a') }}", "undefined-variable", "1:11"),
        ("{{ [{'a': 1}, {}] | sort(attribute='a') }}", "undefined-variable", "1:21"),
        ("{{ namespace(1) }}", "template-failed", "1:4"),
        ("{{ 'a' | map }}", "template-failed", "1:10"),
        ("{{ target['gone'] }}", "undefined-variable", "1:4"),
        (
            "{% for x in [1] %}{{ 1 + '%d' % 'a' }}{% endfor %}",
            "template-failed",
            "1:26",
        ),
        ("{% set ns = [1] %} {% set ns.x = 1 %}", "template-forbidden", "1:23"),
        (
            "\n{{ range(3) | join }}{% for x in range(9) %}{{ 'x' * 1000000 }}{% endfor %}",
            "template-too-large",
            "2:48",
        ),
        (
            "{% set s = [1] %}" + "{% set s = [s, s] %}" * 30 + "\n{{ s | string }}",
            "template-too-large",
            "2:8",
        ),
        ("{{ 'a'.strip(chars='a') }}", "template-forbidden", "1:13"),
    ],
)
def test_a_refusal_of_a_library_function_has_its_place(
    source: str, condition: str, place: str
) -> None:
    problem = problems_of(source)[0]
    assert (problem.condition, str(problem.place)) == (
        condition,
        f"models/m.sql:{place}",
    )


def test_an_entry_that_is_not_there_is_answered_with_the_nearest_name() -> None:
    assert "'namespace'" in problems_of("{{ target.namespac }}")[0].fix
    assert "'deep'" in problems_of("{{ var('map').dep }}")[0].fix


# The lists of what a template can do: each name has an example, and none of them
# reaches Python.

FILTER_EXAMPLES = {
    "abs": "-1 | abs",
    "capitalize": "'aB' | capitalize",
    "count": "'abc' | count",
    "d": "var('map').gone | d(1)",
    "default": "'' | default('x', true)",
    "dictsort": "{'b': 1, 'A': 2} | dictsort(false, 'value')",
    "first": "[1, 2] | first",
    "float": "'1.5' | float",
    "format": "'%s-%d' | format('a', 2)",
    "groupby": "[{'a': 2}, {'a': 1}] | groupby('a')",
    "indent": "'a\\n\\nb' | indent(width=2, blank=true)",
    "int": "'0x1F' | int(0, 16)",
    "items": "{'a': 1} | items | list",
    "join": "[{'a': 1}, {'a': 'b'}] | join('-', attribute='a')",
    "last": "'abc' | last",
    "length": "{'a': 1} | length",
    "list": "'ab' | list",
    "lower": "'AB' | lower",
    "map": "['a'] | map('replace', 'a', 'b') | list",
    "max": "[{'a': 1}, {'a': 2}] | max(attribute='a')",
    "min": "['b', 'A'] | min(case_sensitive=true)",
    "reject": "[1, 2] | reject('even') | list",
    "rejectattr": "[{'a': 1}, {'a': none}] | rejectattr('a', 'none') | list",
    "replace": "'aaa' | replace('a', 'b', 2)",
    "reverse": "[1, 2] | reverse | list",
    "round": "1234.567 | round(-2)",
    "select": "[0, 1] | select | list",
    "selectattr": "[{'a': {'b': 1}}] | selectattr('a.b', 'eq', 1) | list",
    "sort": "['b', 'A'] | sort(reverse=true)",
    "string": "[1] | string",
    "sum": "[{'a': 1}, {'a': 2}] | sum('a', 10)",
    "title": "'a b-c' | title",
    "trim": "'xax' | trim('x')",
    "unique": "['a', 'A', 'b'] | unique | list",
    "upper": "'ab' | upper",
}
TEST_EXAMPLES = {
    "boolean": "true is boolean",
    "defined": "var('map').gone is defined",
    "divisibleby": "6 is divisibleby(3)",
    "even": "2 is even",
    "false": "0 is false",
    "float": "1.0 is float",
    "in": "'a' is in('ab')",
    "integer": "true is integer",
    "iterable": "1 is iterable",
    "lower": "'a' is lower",
    "mapping": "namespace() is mapping or {} is mapping",
    "none": "none is none",
    "number": "1 is number",
    "odd": "1 is odd",
    "sequence": "{} is sequence",
    "string": "'a' is string",
    "true": "true is true",
    "undefined": "var('map').gone is undefined",
    "upper": "'A' is upper",
    **{
        name: f"1 is {name}(2)"
        for name in (
            "eq",
            "equalto",
            "ne",
            "gt",
            "greaterthan",
            "ge",
            "lt",
            "lessthan",
            "le",
        )
    },
    **{
        name: f"[1, 2, 3] | select('{name}', 2) | list"
        for name in ("==", "!=", ">", ">=", "<", "<=")
    },
}
METHOD_EXAMPLES = {
    "capitalize": "'aB'.capitalize()",
    "endswith": "'ab'.endswith(('a', 'b'))",
    "format": "'{0:>3}{a}'.format(1, a=2)",
    "get": "{'a': 1}.get('b', 2)",
    "items": "{'a': 1}.items() | list",
    "join": "','.join(['a', 'b'])",
    "keys": "{'a': 1}.keys() | list",
    "lower": "'AB'.lower()",
    "lstrip": "'xax'.lstrip('x')",
    "replace": "'aa'.replace('a', 'b', 1)",
    "rstrip": "'xax'.rstrip('x')",
    "split": "'a b'.split()",
    "startswith": "'ab'.startswith('a')",
    "strip": "'xax'.strip('x')",
    "title": "'ab cd'.title()",
    "upper": "'ab'.upper()",
    "values": "{'a': 1}.values() | list",
}
VALUES = [
    "'a'",
    "1",
    "['a']",
    "{'a': 'b'}",
    "[{'a': 1}]",
    "[('a', 1)]",
    "namespace(a=1)",
    "[[1]] | groupby(0)",
]
INTERNALS = [
    "__class__",
    "__class__.__mro__",
    "upper",
    "0.__class__",
    "__init__.__globals__",
    "real",
    "_fields",
]


def test_what_the_checks_let_through_can_be_run_and_nothing_else() -> None:
    parts = {nodes.Output, nodes.TemplateData, nodes.Keyword, nodes.Operand, nodes.Pair}
    assert (
        check._CHECKS.keys() - parts
        == evaluate._STATEMENTS.keys() | evaluate._EXPRESSIONS.keys()
    )


def test_each_filter_test_and_method_has_an_example() -> None:
    assert FILTER_EXAMPLES.keys() == FILTERS.keys()
    assert TEST_EXAMPLES.keys() == TESTS.keys()
    assert METHOD_EXAMPLES.keys() == METHODS


@each_of(
    "example",
    [*FILTER_EXAMPLES.values(), *TEST_EXAMPLES.values(), *METHOD_EXAMPLES.values()],
)
def test_an_example_means_what_it_means_to_jinja(example: str) -> None:
    source = f"{{{{ ({example}) | string }}}}"
    assert render(source).text == by_jinja(source)


@pytest.mark.parametrize(
    ("use", "name"),
    a_few(
        [
            *[
                (use, name)
                for name in sorted(FILTERS)
                for use in ("{0} | {1}('{2}')", "{0} | {1}(attribute='{2}')")
            ],
            *[("[{0}] | map('{1}', '{2}') | list", name) for name in sorted(FILTERS)],
            *[("[{0}] | select('{1}', '{2}') | list", name) for name in sorted(TESTS)],
            *[("({0}).{1}('{2}')", name) for name in sorted(METHODS)],
        ],
        13,
    ),
)
def test_no_filter_test_or_method_reaches_an_attribute(use: str, name: str) -> None:
    """What comes out is a value of templates: no text of an object, a function or a
    class."""
    for value in VALUES:
        for internal in INTERNALS:
            source = use.format(value, name, internal)
            try:
                text = render(f"{{{{ {source} }}}}").text
            except ProjectError as error:
                conditions = {problem.condition for problem in error.problems}
                assert conditions <= {
                    "template-forbidden",
                    "template-failed",
                    "undefined-variable",
                }
            else:
                assert not re.search("[<>]|built-in|0x", text), source
