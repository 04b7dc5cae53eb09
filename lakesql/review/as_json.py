"""A review as JSON for other tools, in the format of docs/plan.schema.json."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from lakesql.review.verdicts import ColumnChanges, ModelReview, Reason, Review


def render_json(review: Review) -> str:
    """The review as the text of one JSON object, with every selected model."""
    return json.dumps(describe_review(review), ensure_ascii=False, indent=2)


def describe_review(review: Review) -> dict[str, Any]:
    """The review as a JSON object."""
    return {
        "verdict": review.verdict,
        "against": review.against,
        "models": [_model(model) for model in review.models],
    }


def _model(model: ModelReview) -> dict[str, Any]:
    return {
        "name": model.name,
        "verdict": model.verdict,
        "reasons": [_reason(reason) for reason in model.reasons],
        "columns": _columns(model.columns),
        "statements": {
            "before": model.statements.before,
            "after": model.statements.after,
        },
        "steps": [
            {"text": step.text, "statements": list(step.statements)}
            for step in model.steps
        ],
        "downstream": [
            {
                "name": reader.name,
                "columns": list(reader.columns),
                "through": reader.through,
            }
            for reader in model.downstream
        ],
        "forecast": asdict(model.day) if model.day else None,
    }


def _reason(reason: Reason) -> dict[str, Any]:
    return {
        "verdict": reason.verdict,
        "condition": reason.condition,
        "what": reason.what,
        "place": str(reason.place) if reason.place else None,
        "do": reason.do,
    }


def _columns(columns: ColumnChanges) -> dict[str, Any]:
    return {
        "added": [
            {"name": column.name, "type": column.type or None}
            for column in columns.added
        ],
        "dropped": [
            {"name": column.name, "type": column.type or None}
            for column in columns.dropped
        ],
        "retyped": [
            {
                "name": column.name,
                "before": column.before or None,
                "after": column.after or None,
            }
            for column in columns.retyped
        ],
    }
