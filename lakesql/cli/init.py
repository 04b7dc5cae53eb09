"""`lakesql init`: start a project from the shop, the example project of lakesql."""

from __future__ import annotations

import re
from pathlib import Path

import click

from lakesql.cli.options import Command, Given

FOLDERS = ("models", "streams", "macros")
FILES = ("profiles.yml", "pyproject.toml")
IGNORED = "# Created again by lakesql, or kept for this machine only\n.lakesql/\ntarget/\nlogs/\n"


@click.command("init", cls=Command)
@click.argument(
    "directory",
    metavar="[DIR]",
    required=False,
    type=click.Path(file_okay=False, path_type=Path),
)
@click.option(
    "--name",
    metavar="NAME",
    default="shop",
    show_default=True,
    help="Name of the project.",
)
@click.option(
    "--empty",
    is_flag=True,
    help="Create only folders, settings and a target, without the shop.",
)
@click.pass_obj
def command(given: Given, directory: Path | None, name: str, empty: bool) -> None:
    """Create a project in DIR: a small shop that is ready to run.

    Its streams are recorded in files, and its tables are stored in a folder, so it only
    needs Java.
    """
    from lakesql.decode import node_of
    from lakesql.errors import Place, UsageError
    from lakesql.names import check_name
    from lakesql.project.yaml import parse_yaml

    check_name(node_of(name, Place("--name")))
    if parse_yaml("--name", name).plain() != name:
        raise UsageError.of(
            "bad-name", f"In YAML '{name}' is no text.", fix="Choose another name."
        )
    root = directory or given.options.project_dir or Path()
    there = [entry for entry in (*FOLDERS, *FILES) if (root / entry).exists()]
    if there:
        raise UsageError.of(
            "project-exists",
            f"{root.absolute()} has {', '.join(there)}, and nothing is overwritten.",
            fix="Name another folder: lakesql init my_project",
        )
    if empty:
        write_empty_project(root, name)
        steps = ["lakesql parse", "lakesql debug"]
    else:
        write_project(root, name)
        steps = ["lakesql run --select orders", "lakesql show orders"]
    if root.resolve() != Path.cwd():
        steps.insert(0, f"cd {root}")
    click.echo(
        f"A project is in {root.absolute()}. Try it:\n"
        + "".join(f"  {step}\n" for step in steps),
        nl=False,
    )


def write_project(root: Path, name: str) -> None:
    """Write the shop into the folder `root`, as a project with the name `name`."""
    import shutil

    from lakesql.project.files import date_by_name

    shop = find_shop()
    root.mkdir(parents=True, exist_ok=True)
    for folder in FOLDERS:
        shutil.copytree(shop / folder, root / folder)
    # set the files' times now: the project may be read-only when it is run
    date_by_name(root / "streams" / "recorded")
    for file in FILES:
        text = (shop / file).read_text("utf-8")
        own = only_lakesql(text) if file == "pyproject.toml" else text
        (root / file).write_text(rename(own, name), "utf-8")
    _write_schemas(root)
    _write_gitignore(root)


EMPTY_SETTINGS = """\
[tool.lakesql]
name = "{name}"
"""
EMPTY_PROFILES = """\
# Where the project runs. Streams are declared in streams/, by .yml files; models are SELECTs in models/, .sql files.
{name}:
  target: dev
  outputs:
    dev:
      catalog: {{name: lake, type: sql, uri: "sqlite:///.lakesql/catalog.db", warehouse: .lakesql/warehouse}}
      # Where streams are read, by the name that a stream calls its `connection`. Topics that are recorded in files:
      #   shop: {{type: recorded, path: streams/recorded}}
      # A broker:
      #   shop: {{type: kafka, bootstrap_servers: "localhost:9092"}}
      connections: {{}}
"""


def write_empty_project(root: Path, name: str) -> None:
    """Write a project with the name `name`, and without streams and models, into the
    folder `root`."""
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True)
    (root / "pyproject.toml").write_text(EMPTY_SETTINGS.format(name=name), "utf-8")
    (root / "profiles.yml").write_text(EMPTY_PROFILES.format(name=name), "utf-8")
    _write_schemas(root)
    _write_gitignore(root)


def _write_schemas(root: Path) -> None:
    """Write the JSON Schemas of the project's files, and name them in these files, for
    editors."""
    from lakesql.project.file_schemas import add_modeline, schema_texts, write_schemas

    write_schemas(root, schema_texts())
    named = [root / file for file in FILES]
    named += [path for folder in FOLDERS for path in (root / folder).rglob("*.yml")]
    for path in named:
        path.write_text(
            add_modeline(path.relative_to(root).as_posix(), path.read_text("utf-8")),
            "utf-8",
        )


def _write_gitignore(root: Path) -> None:
    if not (root / ".gitignore").exists():
        (root / ".gitignore").write_text(IGNORED, "utf-8")


def find_shop() -> Path:
    """The folder of the shop: in the installed package, or in the repository that the
    package is part of."""
    import lakesql

    package = Path(lakesql.__file__).parent
    return package / "shop" if (package / "shop").is_dir() else package.parent


def only_lakesql(text: str) -> str:
    """The `[tool.lakesql…]` tables of a pyproject.toml, except `[tool.lakesql.paths]`,
    which is about the repository itself."""
    tables = re.findall(
        r"^\[tool\.lakesql(?!\.paths])[].].*?(?=^\[|\Z)", text, re.DOTALL | re.MULTILINE
    )
    return "".join(tables).strip() + "\n"


def rename(text: str, name: str) -> str:
    """The text of the shop's settings or profiles, with another project name."""
    shop = r'^(name = "|profile = "|      namespace: )?shop(?=[":\n])'
    return re.sub(shop, rf"\g<1>{name}", text, flags=re.MULTILINE)
