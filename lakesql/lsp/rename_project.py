"""Renames a model in all files of a project, and tells the user what remains to be done
for its table.

The editor changes files only. The table, the ledger and the checkpoint of the model are
renamed by `lakesql rename`, so the message says that this command must follow.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from lsprotocol import types

from lakesql.decode import node_of
from lakesql.errors import LakesqlError, Place, UsageError
from lakesql.graph.manifest import Manifest
from lakesql.lsp.mentions import Mention, all_mentions
from lakesql.lsp.open_project import OpenProject
from lakesql.model.model import Model
from lakesql.names import check_model_name
from lakesql.project.files import SELECTORS_FILE

ANNOTATION = "lakesql-rename"


@dataclass(frozen=True, slots=True)
class ModelRename:
    """A rename: the mentions to edit, the model's file before and after, and the
    message to show."""

    mentions: tuple[Mention, ...]
    old_path: str
    new_path: str
    new: str
    said: str


def find_renamed(project: OpenProject, mention: Mention | None) -> Model:
    """The model whose name is at the cursor. Raises `LakesqlError` for a name that
    cannot be changed here."""
    manifest = project.manifest
    if manifest is None or mention is None or mention.kind not in ("model", "stream"):
        raise _refused("Only the name of a model can be changed here.")
    name = mention.name
    if name in manifest.models and name not in manifest.streams:
        model = manifest.models[name]
        if model.member is not None:
            raise _refused(
                f"'{name}' stands for a table of a feed: `tables` of {model.path} says what it is called."
            )
        return model
    if name in manifest.streams:
        what = f"'{name}' is a stream: its name is in the checkpoints of the models that read it."
        raise _refused(f"{what} A stream of another name is read from its start.")
    raise _refused(f"'{name}' is no model that has a table of its own.")


def rename_model(
    project: OpenProject, mention: Mention | None, new: str
) -> ModelRename:
    """The rename of the model at the cursor. Raises `LakesqlError` for a new name that
    is invalid or taken."""
    model = find_renamed(project, mention)
    manifest = project.manifest
    assert manifest is not None
    check_model_name(node_of(new, Place("")))
    taken = {
        *manifest.models,
        *manifest.seeds,
        *manifest.written,
        *manifest.groups,
        *manifest.streams,
    }
    if new.lower() in {each.lower() for each in taken}:
        raise _refused(f"There is a model, a seed or a stream '{new}' already.")
    found = [*all_mentions(project, "model", model.name)]
    new_path = str(PurePosixPath(model.path).with_name(f"{new}.sql"))
    if new_path in project.texts() or (project.directory / new_path).exists():
        raise _refused(f"There is a file {new_path} already.")
    return ModelRename(
        tuple(found),
        model.path,
        new_path,
        new,
        _consequence(project, manifest, model, new),
    )


def _refused(what: str) -> UsageError:
    return UsageError.of("usage", what)


def _consequence(
    project: OpenProject, manifest: Manifest, model: Model, new: str
) -> str:
    """The message about what must be done for the model's table, on each target where
    it has run."""
    said = _of_table(model, new)
    selectors = (
        project.texts().get(SELECTORS_FILE, "") or project.text(SELECTORS_FILE) or ""
    )
    if re.search(rf"\b{re.escape(model.name)}\b", selectors):
        said += f" {SELECTORS_FILE} has the word '{model.name}', and is not changed."
    return said


def _of_table(model: Model, new: str) -> str:
    if not model.config.is_stored:
        return (
            f"The files of view '{model.name}' are changed. The next run makes the view of '{new}'; that of "
            f"'{model.name}' stays in the catalog until `lakesql drop {model.name}`."
        )
    becomes = f"{model.table.catalog}.{model.table.namespace}.{new}"
    stays = f"table {model.table} keeps its name, which `table` gives it"
    moved = (
        stays
        if model.config.table
        else f"table {model.table} becomes {becomes} in the catalog"
    )
    return (
        f"The files alone are changed, and no table. Before the next run, on each target where '{model.name}' has run: "
        f"`lakesql rename {model.name} {new}`. By that {moved}, with its rows, its ledger and its checkpoint. Without "
        f"it '{new}' begins anew."
    )


def workspace_edit(
    rename: ModelRename,
    edit_of: Callable[[Mention, str], types.TextEdit],
    uri: Callable[[str], str],
    *,
    annotates: bool,
) -> types.WorkspaceEdit:
    """The edits of a rename as the protocol has them: first the texts, then the file's
    name."""
    by_path: dict[str, list[types.TextEdit]] = {}
    for mention in rename.mentions:
        by_path.setdefault(mention.path, []).append(edit_of(mention, rename.new))
    changes: list[
        types.TextDocumentEdit | types.RenameFile | types.CreateFile | types.DeleteFile
    ] = [
        types.TextDocumentEdit(
            types.OptionalVersionedTextDocumentIdentifier(uri(path)), edits
        )
        for path, edits in by_path.items()
    ]
    marked = ANNOTATION if annotates else None
    changes.append(
        types.RenameFile(
            uri(rename.old_path), uri(rename.new_path), annotation_id=marked
        )
    )
    annotation = types.ChangeAnnotation(
        f"Rename to {rename.new}", needs_confirmation=False, description=rename.said
    )
    return types.WorkspaceEdit(
        document_changes=changes,
        change_annotations={ANNOTATION: annotation} if annotates else None,
    )


def refusal(error: LakesqlError) -> str:
    """The message about a rename that is refused."""
    problem = error.problems[0]
    return " ".join(text for text in (problem.what, problem.why, problem.fix) if text)
