"""What each file of a project has said when it had this text: in memory, as it is asked
again at each change."""

from __future__ import annotations

from dataclasses import dataclass

from lakesql.decode import Node
from lakesql.graph.parse_cache import FileCache, digest_macros
from lakesql.graph.read_file import (
    Declarations,
    ModelFile,
    parse_declarations,
    parse_model,
)
from lakesql.project.files import Outputs, SourceFile
from lakesql.template.template import Macros


@dataclass(frozen=True, slots=True)
class _ParsedModel:
    """What a model's file has said, and what it depends on beside its text."""

    text: str
    defaults: Node
    macros: dict[str, str]
    names: frozenset[str]
    said: ModelFile


class ParsedFiles:
    """What files have said. For those that were not asked yet, the cache that the last
    command left is read."""

    def __init__(self, outputs: Outputs) -> None:
        self._declarations: dict[str, tuple[str, Declarations]] = {}
        self._models: dict[str, _ParsedModel] = {}
        self._kept = FileCache(outputs.cache / "files.json")

    def read_declarations(self, file: SourceFile) -> Declarations:
        """What `parse_declarations` says, or said before."""
        text, said = self._declarations.get(file.path, ("", None))
        if said is None:
            said = self._kept.read_declarations(file)
        elif text != file.text:
            said = parse_declarations(file)
        self._declarations[file.path] = file.text, said
        return said

    def read_model(self, file: SourceFile, defaults: Node, macros: Macros) -> ModelFile:
        """What `parse_model` says, or said before. Raises the same."""
        known = self._models.get(file.path)
        # A macro of the model's own must not have the name of one of the project's:
        # there all names matter.
        names = frozenset(macros.by_name) if "endmacro" in file.text else frozenset()
        if (
            known is not None
            and known.text == file.text
            and known.defaults == defaults
            and known.names == names
        ):
            if known.macros == digest_macros(known.macros, macros):
                return known.said
        elif known is None:
            return self._keep(
                file,
                defaults,
                macros,
                names,
                self._kept.read_model(file, defaults, macros),
            )
        return self._keep(
            file, defaults, macros, names, parse_model(file, defaults, macros)
        )

    def _keep(
        self,
        file: SourceFile,
        defaults: Node,
        macros: Macros,
        names: frozenset[str],
        said: ModelFile,
    ) -> ModelFile:
        used = digest_macros(said.facts.macros, macros)
        self._models[file.path] = _ParsedModel(file.text, defaults, used, names, said)
        return said
