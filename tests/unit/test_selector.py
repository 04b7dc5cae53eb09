from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesql.errors import Place, UsageError
from lakesql.graph.graph import Graph, GraphNode, ResourceType, build_graph, node_id
from lakesql.graph.selector import METHODS, Selected, parse_selection, select_nodes
from tests.cases import each_of


def node(
    resource_type: ResourceType,
    name: str,
    path: str,
    reads: list[str],
    config: dict[str, object],
) -> GraphNode:
    folders = path.split("/")[1:-1]
    tags = config.get("tags", [])
    assert isinstance(tags, list)
    return GraphNode(
        id=node_id(resource_type, name),
        name=name,
        resource_type=resource_type,
        path=path,
        fqn=("shop", *folders, name),
        tags=frozenset(tags),
        config=config,
        depends_on=tuple(reads),
        place=Place(path),
    )


def shop() -> Graph:
    r"""What is read stands above its reader.

    orders   customers   clicks     (streams)
      |          |         |
    orders   customers   clicks     staging/, staging/crm/, staging/
      |     \    |       /    \
      |      revenue   /   daily_clicks     marts/
    archive         \ /                     (no folder)
                  funnel                    marts/web.v2/
    """
    return build_graph(
        [
            node(
                "stream",
                "orders",
                "streams/shop.yml",
                [],
                {"format": "json", "tags": ["core"]},
            ),
            node("stream", "customers", "streams/shop.yml", [], {"format": "json"}),
            node("stream", "clicks", "streams/web/clicks.yml", [], {"format": "avro"}),
            node(
                "model",
                "orders",
                "models/staging/orders.sql",
                ["stream.orders"],
                {
                    "mode": "upsert",
                    "keys": ["order_id"],
                    "tags": ["core", "nightly"],
                    "meta": {
                        "owner": "sales",
                        "pii": True,
                        "contact": {"mail": "a@b.c"},
                    },
                    "properties": {"write.format.default": "orc"},
                },
            ),
            node(
                "model",
                "customers",
                "models/staging/crm/customers.sql",
                ["stream.customers"],
                {
                    "mode": "upsert",
                    "keys": ["customer_id", "region"],
                    "meta": {"pii": False},
                    "max_per_batch": 1000,
                },
            ),
            node(
                "model",
                "clicks",
                "models/staging/clicks.sql",
                ["stream.clicks"],
                {
                    "mode": "append",
                    "tags": ["web", "nightly-web"],
                    "flags": [True, "odd"],
                    "ratio": 0.5,
                },
            ),
            node(
                "model",
                "revenue",
                "models/marts/revenue.sql",
                ["model.orders", "model.customers"],
                {"mode": "upsert"},
            ),
            node(
                "model",
                "daily_clicks",
                "models/marts/daily_clicks.sql",
                ["model.clicks"],
                {"mode": "append"},
            ),
            node(
                "model",
                "funnel",
                "models/marts/web.v2/funnel.sql",
                ["model.revenue", "model.clicks"],
                {"mode": "upsert"},
            ),
            node(
                "model",
                "archive",
                "models/archive.sql",
                ["model.orders"],
                {"mode": "append", "comment": None},
            ),
        ]
    )


SHOP = shop()
STREAMS = {"stream.orders", "stream.customers", "stream.clicks"}
MODELS = set(SHOP.nodes) - STREAMS


def selected(*select: str, exclude: tuple[str, ...] = ()) -> Selected:
    return select_nodes(parse_selection(select, exclude), SHOP)


def ids(names: str) -> set[str]:
    """`orders s:orders`: a model and a stream."""
    return {
        f"stream.{name[2:]}" if name.startswith("s:") else f"model.{name}"
        for name in names.split()
    }


def test_nothing_said_is_everything() -> None:
    assert selected() == Selected(frozenset(SHOP.nodes), ())


@each_of(
    ("word", "expected"),
    [
        # names, and names in full: from the project or from the first folder, to any
        # depth
        ("orders", "orders"),
        ("fqn:orders", "orders"),
        ("staging.orders", "orders"),
        ("shop.staging.orders", "orders"),
        ("shop.orders", ""),
        ("staging", "orders customers clicks"),
        ("shop.staging", "orders customers clicks"),
        ("staging.crm", "customers"),
        ("crm", ""),
        ("crm.customers", ""),
        ("stag", ""),
        ("shop", "orders customers clicks revenue daily_clicks funnel archive"),
        ("shop.archive", "archive"),
        ("marts.web.v2", "funnel"),
        ("marts.web", "funnel"),
        ("web.v2.funnel", ""),
        ("ORDERS", ""),
        # globs: the part from the first wildcard on is matched as a whole
        ("*clicks", "clicks daily_clicks"),
        ("*", "orders customers clicks revenue daily_clicks funnel archive"),
        ("o?ders", ""),
        ("staging.o?ders", "orders"),
        ("*.o?ders", "orders"),
        ("staging.*", "orders customers clicks"),
        ("staging.*.*", "customers"),
        ("shop.*.orders", "orders"),
        ("*.crm.*", "customers"),
        ("marts.[dr]*", "daily_clicks revenue"),
        ("marts.[!d]*", "revenue funnel"),
        ("a*", "archive"),
        ("*.*.*.*.*.*", ""),
        # files and folders
        ("path:models/staging", "orders customers clicks"),
        ("path:models/staging/", "orders customers clicks"),
        ("./models/staging", "orders customers clicks"),
        ("models/marts/../staging/orders.sql", "orders"),
        ("models/staging/orders.sql", "orders"),
        ("path:models/staging/orders", ""),
        ("models/stag", ""),
        ("models/*/orders.sql", "orders"),
        ("models/*", "orders customers clicks revenue daily_clicks funnel archive"),
        ("models/*.sql", "archive"),
        ("models/**/c*.sql", "customers clicks"),
        ("models/**/crm", "customers"),
        ("models/staging/**", "orders customers clicks"),
        ("models/*/**", "orders customers clicks revenue daily_clicks funnel"),
        ("path:**/*.yml", "s:orders s:customers s:clicks"),
        ("path:streams", "s:orders s:customers s:clicks"),
        ("streams/web/clicks.yml", "s:clicks"),
        (
            "path:.",
            "orders customers clicks revenue daily_clicks funnel archive s:orders s:customers s:clicks",
        ),
        ("path:models", "orders customers clicks revenue daily_clicks funnel archive"),
        ("file:orders.sql", "orders"),
        ("file:orders", "orders"),
        ("orders.sql", "orders"),
        ("*clicks.sql", "clicks daily_clicks"),
        ("file:clicks", "clicks s:clicks"),
        ("file:sql", ""),
        # tags, types, streams
        ("tag:core", "orders s:orders"),
        ("tag:night*", "orders clicks"),
        ("tag:nightly", "orders"),
        (
            "resource_type:model",
            "orders customers clicks revenue daily_clicks funnel archive",
        ),
        ("resource_type:stream", "s:orders s:customers s:clicks"),
        ("stream:orders", "s:orders"),
        ("stream:c*", "s:customers s:clicks"),
        ("stream:revenue", ""),
        # config
        ("config.mode:upsert", "orders customers revenue funnel"),
        ("config.mode:up*", ""),
        ("config.format:json", "s:orders s:customers"),
        ("config.keys:region", "customers"),
        ("config.keys:order_id", "orders"),
        ("config.keys:order", ""),
        ("config.tags:nightly", "orders"),
        ("config.meta.owner:sales", "orders"),
        ("config.meta.contact.mail:a@b.c", "orders"),
        ("config.meta:owner", ""),
        ("config.meta.pii:true", "orders"),
        ("config.meta.pii:TRUE", "orders"),
        ("config.meta.pii:false", "customers"),
        ("config.flags:true", "clicks"),
        ("config.flags:odd", "clicks"),
        ("config.flags:false", ""),
        ("config.properties.write.format.default:orc", "orders"),
        ("config.max_per_batch:1000", "customers"),
        ("config.ratio:0.5", "clicks"),
        ("config.comment:None", ""),
        ("config.mode.deeper:upsert", ""),
        ("config.nowhere:x", ""),
        # graph operators
        ("+revenue", "revenue orders customers s:orders s:customers"),
        ("1+revenue", "revenue orders customers"),
        ("0+revenue", "revenue"),
        ("orders+", "orders revenue funnel archive"),
        ("orders+1", "orders revenue archive"),
        ("1+revenue+1", "revenue orders customers funnel"),
        ("2+revenue+9", "revenue orders customers s:orders s:customers funnel"),
        ("+revenue+", "revenue orders customers s:orders s:customers funnel"),
        (
            "@orders",
            "orders revenue funnel archive s:orders customers s:customers clicks s:clicks",
        ),
        ("@daily_clicks", "daily_clicks clicks s:clicks"),
        ("@+daily_clicks", "daily_clicks clicks s:clicks"),
        ("stream:orders+", "s:orders orders revenue funnel archive"),
        ("stream:orders+1", "s:orders orders"),
        ("+config.mode:append", "clicks daily_clicks archive orders s:orders s:clicks"),
        ("tag:web+1", "clicks daily_clicks funnel"),
        ("1+models/marts/revenue.sql", "revenue orders customers"),
        ("+orders.sql", "orders s:orders"),
        # intersections and unions in one word or value
        ("staging,config.mode:upsert", "orders customers"),
        ("staging,config.mode:upsert,tag:core", "orders"),
        ("orders+,+funnel", "orders revenue funnel"),
        ("orders clicks", "orders clicks"),
        ("orders \n\t clicks ", "orders clicks"),
        ("staging,tag:core archive", "orders archive"),
    ],
)
def test_a_selector_selects_the_expected_nodes(word: str, expected: str) -> None:
    result = selected(word)
    assert result.ids == ids(expected)
    assert result.unmatched == (() if expected else (word,))


def test_several_values_are_a_union() -> None:
    assert selected("orders", "clicks revenue").ids == ids("orders clicks revenue")


@each_of(
    ("select", "exclude", "expected"),
    [
        (
            (),
            ("staging",),
            "revenue daily_clicks funnel archive s:orders s:customers s:clicks",
        ),
        ((), ("staging", "marts resource_type:stream"), "archive"),
        (("staging",), ("orders",), "customers clicks"),
        (("staging",), ("staging,tag:core",), "customers clicks"),
        (("orders+",), ("1+revenue",), "funnel archive"),
        (("orders",), ("shop",), ""),
    ],
)
def test_excluded_nodes_are_not_selected(
    select: tuple[str, ...], exclude: tuple[str, ...], expected: str
) -> None:
    assert selected(*select, exclude=exclude) == Selected(frozenset(ids(expected)), ())


def test_words_that_match_nothing_are_named_as_they_were_written() -> None:
    result = selected(
        "orders tag:none",
        "staging,marts",
        "+gone+2 tag:none",
        exclude=("also_gone", "clicks"),
    )
    assert result.ids == ids("orders")
    assert result.unmatched == ("tag:none", "staging,marts", "+gone+2", "also_gone")


@each_of(
    "word",
    [
        "state:modifid",
        "source:orders",
        "package:shop",
        "pathh:models",
        "Tag:core",
        ":orders",
        "odd-method:x",
        "config:upsert",
        "config.:upsert",
        "config.meta..pii:true",
        "config.mode:",
        "tag.core:x",
        "tag:",
        "resource_type:models",
        "resource_type:source",
        "path:/models",
        "/models/orders.sql",
        "../models/orders.sql",
        "@orders+",
        "@orders+1",
        "+",
        "2+",
        "@",
        "++orders",
        "orders++",
        "+@orders",
        "orders@",
        "orders,",
        ",orders",
        "orders,,clicks",
        "orders , clicks",
        ",",
        "",
        "  ",
    ],
)
@each_of("option", ["select", "exclude"])
def test_a_malformed_selector_is_refused(word: str, option: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_selection(
            (word,) if option == "select" else (),
            (word,) if option == "exclude" else (),
        )
    assert {problem.condition for problem in caught.value.problems} == {"bad-selector"}


def test_all_wrong_words_are_reported_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        parse_selection(["state:x orders", "tag:"], ["@a+"])
    assert len(caught.value.problems) == 3


@each_of(
    ("word", "near"),
    [
        ("pth:x", "path"),
        ("confg.mode:x", "config"),
        ("source:x", "stream"),
        ("resource_type:models", "model"),
    ],
)
def test_a_wrong_word_is_answered_with_the_nearest(word: str, near: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_selection([word], [])
    assert f"'{near}'" in caught.value.problems[0].fix


def test_an_unknown_method_is_answered_with_all_if_none_is_near() -> None:
    with pytest.raises(UsageError) as caught:
        parse_selection(["zzz:x"], [])
    assert all(method in caught.value.problems[0].fix for method in METHODS)


@given(st.text(alphabet="@+0129:.,/*[]! \tabdefgilnoprstu_", max_size=20))
def test_any_text_selects_or_is_refused(text: str) -> None:
    try:
        selection = parse_selection([text], [])
    except UsageError:
        return
    result = select_nodes(selection, SHOP)
    assert result.ids or result.unmatched
    assert (
        select_nodes(parse_selection([], [text]), SHOP).ids
        == frozenset(SHOP.nodes) - result.ids
    )
