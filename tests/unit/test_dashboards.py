"""The dashboard and the alerts of the docs ask for nothing that no exporter has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakesql.observe.metrics import (
    LABELS,
    RUN_METRICS,
    TABLE_METRICS,
    TABLE_STATES,
    Metric,
)
from lakesql.plan import thresholds
from tests.cases import each_of

DOCS = Path(__file__).parents[2] / "docs"
DASHBOARD: dict[str, Any] = json.loads((DOCS / "grafana.json").read_text())
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((DOCS / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
METRICS = (*RUN_METRICS, *TABLE_STATES, *(metric for metric, _ in TABLE_METRICS))

GIVEN = {"up"}
"""Metrics that Prometheus makes itself, of each address that it scrapes."""

SCRAPED = {"job", "instance"}
"""Labels that it adds."""

WORDS = {
    "and",
    "or",
    "unless",
    "on",
    "ignoring",
    "by",
    "without",
    "group_left",
    "group_right",
    "bool",
    "offset",
}


def names_of(metric: Metric) -> set[str]:
    """The series of a metric."""
    return (
        {f"{metric.name}_sum", f"{metric.name}_count"}
        if metric.kind == "summary"
        else {metric.name}
    )


def expressions() -> Iterator[str]:
    """Every expression of the dashboard and of the rules."""
    yield from (rule["expr"] for rule in RULES)
    yield from (
        target["expr"]
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", ())
    )
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.fullmatch(
                r"label_values\((.+), (\w+)\)", variable["query"]["query"]
            ).groups()  # type: ignore[union-attr]
            yield f"sum by ({label}) ({metric})"


def read_expression(text: str) -> tuple[set[str], set[str]]:
    """The names of metrics and of labels in an expression."""
    text = re.sub(r"\"[^\"]*\"|'[^']*'", '""', text)
    labels = {
        name
        for inner in re.findall(r"\{([^}]*)\}", text)
        for name in re.findall(r"(\w+)\s*[=!]", inner)
    }
    text = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", text)
    grouped = r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)"
    labels |= {
        name
        for inner in re.findall(grouped, text)
        for name in re.findall(r"\w+", inner)
    }
    text = re.sub(grouped, "", text)
    names = re.findall(r"(?<![\w.])[a-zA-Z_:][\w:]*(?!\w|\s*\()", text)
    return set(names) - WORDS, labels


@each_of(
    ("text", "metrics", "labels"),
    [
        ("up", {"up"}, set()),
        ('rate(a_total{model=~"b|c", x!="y"}[5m])', {"a_total"}, {"model", "x"}),
        (
            "sum by (model) (a) / on (job) group_left (b) c > 1e3",
            {"a", "c"},
            {"model", "job", "b"},
        ),
        (
            "a unless on (model) increase(b[1h] offset 5m) > 0 and c",
            {"a", "b", "c"},
            {"model"},
        ),
        ("sum(a) without (instance) == bool 0 or vector(0)", {"a"}, {"instance"}),
    ],
)
def test_names_are_found_in_expressions(
    text: str, metrics: set[str], labels: set[str]
) -> None:
    assert read_expression(text) == (metrics, labels)


def test_only_what_is_exported_is_asked_for() -> None:
    exported = set().union(*map(names_of, METRICS))
    asked = list(map(read_expression, expressions()))
    assert set().union(*(metrics for metrics, _ in asked)) - exported - GIVEN == set()
    assert set().union(*(labels for _, labels in asked)) - {*LABELS} - SCRAPED == set()


def test_every_metric_is_drawn() -> None:
    drawn = set().union(*(read_expression(text)[0] for text in expressions()))
    assert {metric.name for metric in METRICS if not names_of(metric) <= drawn} == set()


def test_texts_of_alerts_name_labels_that_are_there() -> None:
    texts = [text for rule in RULES for text in rule["annotations"].values()]
    assert set(re.findall(r"\$labels\.(\w+)", " ".join(texts))) <= {*LABELS} | SCRAPED
    assert all(rule["annotations"]["summary"] for rule in RULES)
    assert {rule["labels"]["severity"] for rule in RULES} == {"critical", "warning"}
    assert len({rule["alert"] for rule in RULES}) == len(RULES)


@pytest.mark.parametrize(
    ("alert", "bound"),
    [
        ("LakesqlDeadLetters", thresholds.DEAD_LETTER_RATIO),
        ("LakesqlLateEvents", thresholds.LATE_RATIO),
    ],
)
def test_alerts_have_the_limits_of_status(alert: str, bound: thresholds.Bound) -> None:
    (rule,) = [rule for rule in RULES if rule["alert"] == alert]
    assert float(rule["expr"].rpartition(">")[2]) == bound.watch


def test_panels_lie_side_by_side() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        apart = (
            one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"],
            one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"],
        )
        assert any(apart), (one, other)
    for panel in panels:
        assert panel["type"] == "row" or (
            panel["description"] and panel["fieldConfig"]["defaults"]["unit"]
        )
