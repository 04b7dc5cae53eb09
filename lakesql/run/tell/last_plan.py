"""Writes and reads `target/plan.json`: the result of the last `lakesql plan`, and the
digests of the files it was made from, by which a reader sees whether it still holds."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from lakesql import __version__
from lakesql.counts import count
from lakesql.graph.manifest import Manifest
from lakesql.observe.text import Tone, age, iso_time
from lakesql.project.cache import digest
from lakesql.project.files import ProjectFiles, read_text, write_atomically
from lakesql.project.profiles import Target
from lakesql.review.as_json import describe_review
from lakesql.review.verdicts import MEANINGS, Review, Verdict
from lakesql.secrets import find_secrets
from lakesql.site.content import ModelPlan, PlanReason, PlanStep, ShownPlan

PLAN_FILE = "plan.json"

MOST_NAMED = 5
"""How many of the changed files are named."""

TONES: Mapping[Verdict, Tone] = {
    **dict.fromkeys(("none", "docs", "added", "renamed", "next-batch"), "good"),
    **dict.fromkeys(("alter", "rebuild", "removed"), "warning"),
    **dict.fromkeys(("breaks", "refused"), "bad"),
}


@dataclass(frozen=True, slots=True)
class PlanAsked:
    """What a plan was asked for: its selection, and whether tables were read too."""

    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    selectors: tuple[str, ...] = ()
    is_live: bool = False

    @property
    def options(self) -> str:
        """The command-line options of the plan; '' if all models were selected without
        `--live`."""
        said = (
            ("--select", self.select),
            ("--exclude", self.exclude),
            ("--selector", self.selectors),
        )
        words = [" ".join((option, *given)) for option, given in said if given]
        return " ".join((*words, *(["--live"] if self.is_live else [])))


@dataclass(frozen=True, slots=True)
class LastPlan:
    """The contents of the file: of all models together, and of each by name."""

    shown: ShownPlan
    models: Mapping[str, ModelPlan]


def write_last_plan(
    review: Review,
    files: ProjectFiles,
    target: Target | None,
    asked: PlanAsked,
    at_ms: int,
) -> None:
    """Write the file atomically. Raises `OSError` if it cannot be written.

    It holds a digest of each project file, by which a reader sees which files have
    changed since.
    """
    metadata = {
        "lakesql_version": __version__,
        "generated_at": iso_time(at_ms),
        "project": files.settings.name,
        "target": target.facts if target is not None else None,
        "options": asked.options,
    }
    seen = {**_digests(files.texts), **{seed.path: seed.digest for seed in files.seeds}}
    text = json.dumps(
        {"metadata": metadata, "files": seen, "plan": describe_review(review)},
        ensure_ascii=False,
    )
    write_atomically(
        files.outputs.target / PLAN_FILE, find_secrets(os.environ).redact(text) + "\n"
    )


def read_last_plan(
    manifest: Manifest, left_out: Iterable[str], at_ms: int
) -> LastPlan | None:
    """The last plan of the project's models, with the reasons why it may be outdated;
    None if there is none.

    `left_out` are the files that the manifest was read without. A file that this
    version cannot read gives a plan without models and one such reason.
    """
    path = manifest.outputs.target / PLAN_FILE
    try:
        read = json.loads(path.read_bytes())
        metadata, plan = dict(read["metadata"]), read["plan"]
        made_ms = int(
            datetime.fromisoformat(metadata["generated_at"]).timestamp() * 1000
        )
        shown = ShownPlan(
            at=str(metadata["generated_at"]),
            age=age(max(0, at_ms - made_ms)),
            against=str(plan["against"]),
            options=str(metadata["options"]),
            doubts=tuple(_doubts(manifest, left_out, metadata, dict(read["files"]))),
        )
        return LastPlan(
            shown, {str(each["name"]): _model_plan(each) for each in plan["models"]}
        )
    except OSError:
        return None
    except (ValueError, LookupError, TypeError, AttributeError):
        doubt = f"{PLAN_FILE} of the target folder is not what this version of lakesql writes: lakesql plan writes it."
        return LastPlan(ShownPlan("", "", "", "", (doubt,)), {})


def _doubts(
    manifest: Manifest,
    left_out: Iterable[str],
    metadata: Mapping[str, Any],
    former: Mapping[str, str],
) -> Iterator[str]:
    """The reasons, as sentences, why the plan may be outdated."""
    if metadata["lakesql_version"] != __version__:
        yield f"lakesql {metadata['lakesql_version']} has made it, and this is {__version__}."
    of_target = metadata["target"]
    if of_target is not None and of_target != json.loads(
        json.dumps(manifest.target.facts)
    ):
        other = f"It was made for target {of_target['name']}, and this is {manifest.target.name}."
        is_same = of_target["name"] == manifest.target.name
        yield f"Target {manifest.target.name} has changed since." if is_same else other
    now = _digests(manifest.texts) | {
        seed.path: seed.digest for seed in manifest.seeds.values()
    }
    now |= _digests(
        {
            path: text
            for path in left_out
            if (text := _text_of(manifest.directory / path)) is not None
        }
    )
    changed = sorted(
        path for path in {*former, *now} if former.get(path) != now.get(path)
    )
    if changed:
        more = len(changed) - MOST_NAMED
        named = ", ".join(changed[:MOST_NAMED]) + (
            f" and {count(more, 'more file')}" if more > 0 else ""
        )
        yield f"Changed since: {named}."


def _digests(texts: Mapping[str, str]) -> dict[str, str]:
    return {path: digest(text) for path, text in texts.items()}


def _text_of(path: Path) -> str | None:
    try:
        return read_text(path, path.name)
    except (OSError, ValueError):
        return None


def _model_plan(said: Mapping[str, Any]) -> ModelPlan:
    verdict: Verdict = said["verdict"]
    columns = said["columns"]
    changes = [
        *(
            f"+ {each['name']} {each['type'] or ''}".rstrip()
            for each in columns["added"]
        ),
        *(
            f"- {each['name']} {each['type'] or ''}".rstrip()
            for each in columns["dropped"]
        ),
        *(
            f"~ {each['name']} {each['before'] or '?'} -> {each['after'] or '?'}"
            for each in columns["retyped"]
        ),
    ]
    return ModelPlan(
        verdict=verdict,
        tone=TONES[verdict],
        meaning=MEANINGS[verdict],
        reasons=tuple(
            PlanReason(
                each["verdict"],
                each["condition"],
                each["what"],
                each["place"] or "",
                each["do"],
            )
            for each in said["reasons"]
        ),
        columns=tuple(changes),
        steps=tuple(
            PlanStep(each["text"], tuple(each["statements"])) for each in said["steps"]
        ),
    )
