"""Runs Protobuf's own compiler, `protoc`, which makes descriptors of .proto files, in a
temporary folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from lakesql.errors import not_installed
from lakesql.registry.schema_error import SchemaError

EXTRA = "protobuf"

TIMEOUT_S = 60


def compile_files(texts: Mapping[str, str], main: str, described: bytes = b"") -> bytes:
    """The FileDescriptorSet of a file and of all files that it imports, each after
    those that it imports itself.

    `texts` are the files by the names under which they are imported, and `described` is
    the FileDescriptorSet of further files. The types of `google/protobuf`,
    `google/type` and `confluent` are always available. Raises `SchemaError` with the
    compiler's message, and `ProfileError` (`extra-missing`) if it is not installed.
    """
    compiler = _find_compiler()
    with TemporaryDirectory() as directory:
        root, out = Path(directory, "files"), Path(directory, "out")
        for name, text in {**_CONFLUENT, **texts}.items():
            if name.startswith("/") or ".." in Path(name).parts:
                raise SchemaError(f"it imports '{name}', which is no name of a schema")
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
        command = [
            str(compiler),
            f"-I{root}",
            *(f"-I{folder}" for folder in _folders(compiler)),
        ]
        if described:
            Path(directory, "described").write_bytes(described)
            command.append(f"--descriptor_set_in={Path(directory, 'described')}")
        command += [
            "--include_imports",
            "--include_source_info",
            f"--descriptor_set_out={out}",
            main,
        ]
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        if ran.returncode:
            raise SchemaError(_first_fault(ran.stderr.replace(f"{root}{os.sep}", "")))
        return out.read_bytes()


def compiler_version() -> str:
    """The version that the compiler prints. Raises `ProfileError` (`extra-missing`) if
    it is not installed."""
    command = [str(_find_compiler()), "--version"]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    ).stdout.strip()


def _find_compiler() -> Path:
    """The path of the compiler: where its Python package puts it, or else on the PATH.
    Raises `ProfileError` (`extra-missing`) if it is in neither."""
    name = "protoc.exe" if os.name == "nt" else "protoc"
    beside = Path(sysconfig.get_path("scripts"), name)
    found = beside if beside.is_file() else shutil.which(name)
    if found is None:
        raise not_installed("protoc", EXTRA)
    return Path(found)


def _folders(compiler: Path) -> list[Path]:
    """The folders with the well-known types that schemas can import."""
    found = [compiler.resolve().parents[1] / "include"]
    try:
        from google.type import date_pb2
    except ModuleNotFoundError:
        return found
    return [*found, Path(date_pb2.__file__).parents[2]]


def _first_fault(said: str) -> str:
    """The compiler's first error, without warnings."""
    faults = [
        line for line in said.splitlines() if line.strip() and " warning: " not in line
    ]
    return faults[0].strip() if faults else "the compiler refuses it"


_CONFLUENT = {
    "confluent/meta.proto": """syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
""",
    "confluent/type/decimal.proto": """syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
""",
}
"""Files that Confluent's registry provides to every schema, without a reference to
them."""
