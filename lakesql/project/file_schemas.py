"""The JSON Schemas of a project's files, which are written into the project, so that
editors know the keys of a file, offline too."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path, PurePosixPath

from lakesql.project.files import PROPERTIES_SUFFIXES, SELECTORS_FILE, write_atomically
from lakesql.project.settings import SETTINGS_FILE

SCHEMAS_FOLDER = ".schemas"
"""The folder of the schemas in a project. It is to be committed, so that clones have
them too."""

_OF_FILES = {
    "profiles.yml": "profiles.json",
    SELECTORS_FILE: "selectors.json",
    SETTINGS_FILE: "pyproject.json",
}
_OF_OTHERS = "properties.json"


def schema_texts() -> dict[str, str]:
    """The texts of this version's schemas, by the names of their files."""
    folder = files("lakesql") / "schemas"
    return {
        name: (folder / name).read_text("utf-8")
        for name in sorted({*_OF_FILES.values(), _OF_OTHERS})
    }


def write_schemas(root: Path, texts: Mapping[str, str]) -> dict[str, bool]:
    """Write the schemas into a project. Returns, by the path of each, whether it was
    new or has changed."""
    written: dict[str, bool] = {}
    for name, text in texts.items():
        path = root / SCHEMAS_FOLDER / name
        is_new = not path.is_file() or path.read_bytes() != text.encode()
        if is_new:
            write_atomically(path, text)
        written[f"{SCHEMAS_FOLDER}/{name}"] = is_new
    return written


def add_modeline(path: str, text: str) -> str:
    """The text of a project's file with a first line that names its schema, for the
    language servers of YAML and TOML."""
    name = _OF_FILES.get(path, _OF_OTHERS)
    up = "../" * (len(PurePosixPath(path).parts) - 1) or "./"
    schema = f"{up}{SCHEMAS_FOLDER}/{name}"
    if path.endswith(PROPERTIES_SUFFIXES):
        return f"# yaml-language-server: $schema={schema}\n{text}"
    return f"#:schema {schema}\n{text}"
