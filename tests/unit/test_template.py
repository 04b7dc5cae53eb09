"""Templates: what is read of them, what they render to (Jinja itself is the oracle), and what they cannot do."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from lakesql.errors import Problem, ProjectError
from lakesql.template.evaluate import Names
from lakesql.template.template import Macros, Rendered, Template, parse_macros, parse_template, render_template

VARS = {"days": 7, "name": "x", "list": ["b", "a", "B"], "map": {"k": "v", "deep": {"n": [1, 2]}}, "empty": []}
TARGET = {"name": "dev", "namespace": "shop", "catalog": "lake"}
NAMES = Names(lambda name: f"`s`.`{name}`", lambda name: f"`r`.`{name}`", "lake.shop.m", VARS, TARGET, False)
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
        ("macros/c.sql", "{% macro twice(a) %}{{ caller(a) }}, {{ caller(a ~ a) }}{% endmacro %}"),
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


def by_jinja(source: str) -> str:
    """What Jinja makes of it: an implementation that shares nothing with ours but the parser."""
    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    macros = "".join(macro.text for macro in MACROS.by_name.values())
    macro_module: Any = environment.from_string(macros).module
    environment.globals.update({name: getattr(macro_module, name) for name in MACROS.by_name})
    return environment.from_string(source).render(
        config=lambda **_: "",
        stream=NAMES.stream,
        ref=NAMES.ref,
        this=NAMES.this,
        var=lambda name, default=None: VARS.get(name, default),
        target=TARGET,
        is_full_refresh=NAMES.is_full_refresh,
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
    assert (str(config.keys["keys"]), str(keys.place)) == ("models/m.sql:4:5", "models/m.sql:4:12")
    assert [str(item.place) for item in keys.items()] == ["models/m.sql:4:13", "models/m.sql:5:2"]
    assert (str(config.keys["n"]), str(config.entries()["n"].place)) == ("models/m.sql:5:8", "models/m.sql:5:10")
    assert str(config.entries()["t"].place) == "models/m.sql:5:41"
    assert str(config.entries()["m"].keys["k"]) == "models/m.sql:5:56"


def test_a_file_without_config_has_an_empty_one() -> None:
    assert parse("SELECT 1").config.plain() == {}


def test_edges_vars_and_reads_come_from_the_tree_in_branches_that_never_run_too() -> None:
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
    assert MACROS.by_name["total"].text == "{% macro total(c) -%}\n  sum({{ cents(c) }})\n{%- endmacro %}"
    assert MACROS.by_name["fail"].text == "{% macro fail(x) %}\n{{ x + 1 }}{% endmacro %}"


@pytest.mark.filterwarnings("error")
def test_escapes_of_a_regular_expression_stand_for_themselves() -> None:
    assert parse(r"""{{ config(a='\d+\\.\n\'') }}""").config.plain() == {"a": "\\d+\\.\n'"}


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
    "{% for k, v in var('map').items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for x in [] %}a{% else %}none{% endfor %}{% for x in 'ab' %}{{ x }}{{ loop.revindex0 }}{% endfor %}",
    "{% for x in range(10) if x is odd %}{{ x }}{{ loop.length }}{{ loop.first }}{% endfor %}",
    "{% for x in [1, 2, 3] %}{{ loop.previtem if not loop.first }}{{ x }}{% endfor %}",
    "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}",
    "{% set a, b = 1, [2, 3] %}{{ a }}{{ b[1] }}{{ b[-1] }}{{ b[:1] }}{{ 'hello'[1:4:2] }}{{ 'abc'[::-1] }}",
    "{% set t %}x{{ 1 }}{% endset %}[{{ t }}]{% set u | upper %}y{{ t }}{% endset %}{{ u }}",
    "{% filter upper %}a{{ 'b' }}{% endfilter %}{% filter replace('a', 'b') | upper %}aa{% endfilter %}",
    "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}",
    "{% if 1 > 2 %}a{% elif var('days') == 7 %}b{% elif true %}x{% else %}c{% endif %}",
    "{% if 0 %}a{% elif '' %}b{% else %}c{% endif %}{{ 'y' if [] else 'n' }}[{{ 'y' if none is none }}]",
    "{{ cents('x') }} {{ cents(column='y', digits=3) }} {{ total('z') }} {{ cents('a', 1) | upper }}",
    "{% call(v) twice('p') %}<{{ v }}>{% endcall %}",
    "{% macro m(a, b=a ~ '!') %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) }}",
    "{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ 7 % 4 }} {{ 2 ** 10 }} {{ -3 }} {{ +3 }} {{ 1.5e3 }} {{ 1_000 }}",
    "{{ 1 < 2 <= 2 }} {{ 1 == 1.0 }} {{ 'a' in 'cat' }} {{ 3 not in [1, 2] }} {{ 1 != 2 and not 0 or 5 }}",
    "{{ 'a' ~ 1 ~ none ~ [1] }} {{ 'ab' * 3 }} {{ [1] + [2] }} {{ (1, 'a') }} {{ {'a': 1}['a'] }} {{ {'a': 1}.a }}",
    "{{ ' Ab '.strip() }}{{ 'a,b'.split(',') }}{{ 'x'.join(['a', 'b']) }}{{ 'ab'.startswith('a') }}",
    "{{ 'aaa'.replace('a', 'b', 2) }}{{ 'ab cd'.title() }}{{ var('map').get('q', 1) }}{{ var('map').deep.n[0] }}",
    "{{ [3, 1, 2] | sort | join(', ') }} {{ var('list') | sort(reverse=true) }} {{ var('list') | unique | list }}",
    "{{ [1, 2, 3] | sum }} {{ [1, 2] | first }} {{ 'ab' | last }} {{ [1, 5] | max }} {{ ['B', 'a'] | min }}",
    "{{ ['a', 'b'] | map('upper') | join }} {{ [{'n': 1}, {'n': 2}] | map(attribute='n') | sum }}",
    "{{ [1, 2, 3] | select('odd') | list }} {{ [1, 2, 3] | reject('gt', 1) | list }} {{ [0, 1] | select | list }}",
    "{{ [{'n': 1}, {'n': 2}] | selectattr('n', 'eq', 2) | list }} {{ {'b': 1, 'a': 2} | dictsort }}",
    "{{ 'x y-z' | title }} {{ ' a ' | trim }} {{ 'ab' | reverse }} {{ 'Ab' | capitalize }} {{ 'a\nb' | indent(2) }}",
    "{{ '7' | int + 1 }} {{ 'x' | int(3) }} {{ '1.5' | float }} {{ 2.567 | round(1) }} {{ 2.1 | round(0, 'ceil') }}",
    "{{ -3 | abs }} {{ [1, 2] | length }} {{ 3 | string ~ 'x' }}",
    "{{ '' | default('d', true) }} {{ var('map').no | d(5) }}",
    "{{ var('map').no is defined }} {{ var('map').k is defined }} {{ 1 is number }} {{ 'a' is string }}",
    "{{ 4 is divisibleby 2 }} {{ 'A' is upper }} {{ {} is mapping }} {{ [] is sequence }} {{ 3 is in [3] }}",
    "{{ '\\n' }}{{ '{{' ~ '}}' }}{{ \"it's\" }}{{ 'it''s' }}{{ 'a' 'b' }}{{ true }}{{ none }}",
]


@pytest.mark.parametrize("source", TEMPLATES)
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
    operators = st.sampled_from(["+", "-", "*", "//", "~", "==", "<", "in", "and", "or"])
    filters = st.sampled_from(["upper", "length", "default(3)", "join('-')", "first", "list", "string", "int", "sort"])
    tests = st.sampled_from(["string", "number", "defined", "not none", "sequence", "odd"])
    return st.one_of(
        st.builds("({} {} {})".format, inner, operators, inner),
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
        source = f"{{% for v in ['q', 2] %}}[{{{{ {expression} }}}}]{{% endfor %}}"
        try:
            expected = by_jinja(source)
        except Exception:  # whatever Jinja refuses with, ours refuses too
            assert conditions_of(source)[0] in {"template-failed", "undefined-variable"}
            continue
        assert render(source).text == expected


_TAGS = ["set", "endset", "for", "in", "endfor", "if", "elif", "else", "endif", "macro", "endmacro", "call", "endcall"]
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
_NAMES = ["x", "stream", "config", "var", "this", "cents", "loop", "caller", "filter", "raw", "endraw", "'a'", "1", "-"]


@settings(deadline=None)
@given(st.lists(st.sampled_from([*_TAGS, *_WORDS, *_NAMES]), max_size=25))
def test_any_text_is_rendered_or_refused(words: list[str]) -> None:
    try:
        rendered = render(" ".join(words))
    except ProjectError as error:
        assert all(problem.place for problem in error.problems)
    else:
        assert all(rendered.place(offset).line for offset in range(len(rendered.text) + 1))


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


def test_places_of_an_empty_text() -> None:
    assert str(render("").place(0)) == "models/m.sql:1:1"


# What is refused, with its place.


@pytest.mark.parametrize(
    ("source", "condition", "place"),
    [
        ("SELECT\n {{ strem('a') }}", "undefined-variable", "2:5"),
        ("{% if x is defined %}{% endif %}", "undefined-variable", "1:7"),
        ("{{ var('map').no }}", "undefined-variable", "1:14"),
        ("\n{{ var('nowhere') }}", "undefined-variable", "2:4"),
        ("{{ target.nam }}", "undefined-variable", "1:4"),
        ("{{ env_var('X') }}", "undefined-variable", "1:4"),
        ("{% if false %}{% set a = 1 %}{% endif %}{{ a }}", "undefined-variable", "1:44"),
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
def test_refused(source: str, condition: str, place: str | None) -> None:
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
    "{{ 'a'.format(1) }}",
    "{{ 'a'.format_map({}) }}",
    "{{ 'a'.upper }}",
    "{{ var('list').append(1) }}",
    "{{ var('map').update({}) }}",
    "{{ var('map').pop('k') }}",
    "{{ 'a' | attr('upper') }}",
    "{{ 'a' | pprint }}",
    "{{ 'a' | center(9) }}",
    "{{ '%s' | format(1) }}",
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
]


@pytest.mark.parametrize("source", ATTACKS)
def test_python_is_out_of_reach(source: str) -> None:
    problem = problems_of(source)[0]
    assert problem.condition in {"template-forbidden", "name-not-called"}
    assert problem.place
    assert problem.place.column


@pytest.mark.parametrize(
    "name",
    [
        "dict",
        "namespace",
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
    "{% set s = [1] %}{% set t = [1] %}" + "{% set s = [s, s] %}{% set t = [t, t] %}" * 60 + "{{ s == t }}",
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


@pytest.mark.parametrize("source", BOMBS, ids=range(len(BOMBS)))
def test_a_template_ends_whatever_it_says(source: str) -> None:
    start = time.process_time()
    found = conditions_of(source)
    assert found[0] in {"template-too-large", "template-failed", "undefined-variable"}
    assert time.process_time() - start < 5  # a bound against hanging, not a measurement


def test_the_budget_ends_a_template_at_the_same_step_everywhere() -> None:
    """200,000 of them, six in each round of the loop: what is rendered on one machine is rendered on each."""
    loop = "{% for a in range(COUNT) %}{{ a }}{% endfor %}"
    assert render_template(parse(loop.replace("COUNT", "33332")), NAMES).text.endswith("33331")
    assert conditions_of(loop.replace("COUNT", "33333")) == ["template-too-large"]


def test_percent_formats_no_text() -> None:
    assert conditions_of("{{ '%999999999s' % 1 }}") == ["template-failed"]
    assert conditions_of("{{ '%999999999s' is odd }}") == ["template-failed"]


def test_all_problems_of_a_template_come_at_once() -> None:
    found = problems_of("{{ config(a=b) }}\n{{ stream(x) }}\n{{ y }}\n{{ 'a' | nope }}\n{{ ''.__class__ }}")
    assert [(problem.condition, problem.place and problem.place.line) for problem in found] == [
        ("config-not-literal", 1),
        ("reference-not-literal", 2),
        ("undefined-variable", 3),
        ("template-forbidden", 4),
        ("template-forbidden", 5),
    ]


# Macros.


@pytest.mark.parametrize(
    "use", ["config(a=1)", "stream('x')", "ref('x')", "var('x')", "this", "target.name", "is_full_refresh"]
)
def test_a_macro_sees_its_arguments_and_other_macros_alone(use: str) -> None:
    with pytest.raises(ProjectError) as caught:
        parse_macros([("macros/m.sql", "\n{% macro m(a) %}\n{{ a }} {{ " + use + " }}{% endmacro %}")])
    assert [(problem.condition, str(problem.place)) for problem in caught.value.problems] == [
        ("macro-not-pure", "macros/m.sql:3:12")
    ]


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (["{% macro a() %}{% endmacro %}", "\n{% macro a() %}{% endmacro %}"], [("duplicate-macro", "f1.sql:2:4")]),
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
    assert [(problem.condition, str(problem.place)) for problem in caught.value.problems] == found


def test_an_error_in_a_macro_stands_at_the_call_and_names_the_macro() -> None:
    (problem,) = problems_of("SELECT\n  {{ fail('x') }}")
    assert (problem.condition, str(problem.place)) == ("template-failed", "models/m.sql:2:6")
    assert "macros/b.sql:5:4" in problem.why


def test_an_error_in_a_call_block_is_the_models_own() -> None:
    (problem,) = problems_of("\n{% call(v) twice('p') %}\n{{ v + 1 }}{% endcall %}")
    assert (problem.condition, str(problem.place), problem.why) == ("template-failed", "models/m.sql:3:4", "")


def test_a_macro_of_the_model_sees_what_the_model_sees() -> None:
    assert render("{% set d = 3 %}{% macro m() %}{{ stream('s') }}{{ d }}{% endmacro %}{{ m() }}").text == "`s`.`s`3"


def test_dates_among_the_vars_are_their_text() -> None:
    import datetime

    names = Names(str, str, "t", {"day": datetime.date(2024, 1, 2)}, TARGET, True)
    assert render_template(parse("{{ var('day') }} {{ is_full_refresh }}"), names).text == "2024-01-02 True"
