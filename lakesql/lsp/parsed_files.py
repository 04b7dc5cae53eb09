"""Keeps in memory what each file of a project was parsed to, as the project is read
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
    """What a model's file was parsed to, and what the result depends on besides its
    text."""

    text: str
    defaults: Node
    macros: dict[str, str]
    names: frozenset[str]
    said: ModelFile


class ParsedFiles:
    """The parsed files. For those that are new here, the cache of the last command is
    used."""

    def __init__(self, outputs: Outputs) -> None:
        self._declarations: dict[str, tuple[str, Declarations]] = {}
        self._models: dict[str, _ParsedModel] = {}
        self._kept = FileCache(outputs.cache / "files.json")

    def read_declarations(self, file: SourceFile) -> Declarations:
        """What `parse_declarations` returns for a file, from memory if its text has not
        changed."""
        text, said = self._declarations.get(file.path, ("", None))
        if said is None:
            said = self._kept.read_declarations(file)
        elif text != file.text:
            said = parse_declarations(file)
        self._declarations[file.path] = file.text, said
        return said

    def read_model(self, file: SourceFile, defaults: Node, macros: Macros) -> ModelFile:
        """What `parse_model` returns for a file, from memory if nothing that it depends
        on has changed. Raises what `parse_model` does."""
        known = self._models.get(file.path)
        # A file that defines macros depends on the names of all macros of the project,
        # as it must not define one of them again.
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
