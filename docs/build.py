"""Builds lakesql's own documentation as a site: `python docs/build.py [--output DIR]
[--repository URL] [--strict]`.

The pages are README.md, CHANGELOG.md and docs/*.md as they stand there; Zensical makes
HTML of them, by docs/website/zensical.toml. The shelves are those of the README's last
section. A browser opens the site from its files; nothing in it is loaded from
elsewhere.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from docs.readme import README

ROOT = README.parent
DOCS = ROOT / "docs"
WEBSITE = DOCS / "website"
CHANGELOG = ROOT / "CHANGELOG.md"
HOME = "index.md"
FILES = "files"
SHELF = re.compile(r"^- \*\*(.+?)\*\*: (.+?)(?=\n- |\n\n|\Z)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s]+)(\))")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LANGUAGES = {
    ".sql": "sql",
    ".yml": "yaml",
    ".toml": "toml",
    ".json": "json",
    ".py": "python",
}


@click.command()
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=ROOT / "target" / "website",
    show_default="target/website",
)
@click.option(
    "--repository",
    default="",
    help="Where files of the repository are shown, such as https://…/blob/main.",
)
@click.option(
    "--strict", is_flag=True, help="Fail on a link or an anchor that leads nowhere."
)
def main(output: Path, repository: str, strict: bool) -> None:
    """Build the documentation as a site."""
    sys.exit(build(output.absolute(), repository, strict))


def build(output: Path, repository: str = "", strict: bool = False) -> int:
    """The exit code of Zensical, which has made the site in a folder of its own that
    then becomes the output."""
    with tempfile.TemporaryDirectory(prefix="lakesql-website-") as work:
        folder = Path(work)
        write_pages(folder / "pages", repository)
        config = (WEBSITE / "zensical.toml").read_text("utf-8")
        (folder / "zensical.toml").write_text(
            config.replace("nav = []", f"nav = {navigation()}"), "utf-8"
        )
        environ = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [
            sys.executable,
            "-m",
            "zensical",
            "build",
            *(["--strict"] if strict else []),
        ]
        done = subprocess.run(command, cwd=folder, env=environ, check=False)
        if done.returncode == 0:
            name_heads(folder / "site")
            shutil.rmtree(output, ignore_errors=True)
            shutil.copytree(folder / "site", output)
        return done.returncode


def write_pages(folder: Path, repository: str) -> None:
    """The pages and pictures in one flat folder; files of the repository that a page
    leads to are pages as well."""
    folder.mkdir(parents=True)
    linked: set[str] = set()
    for page in pages():
        text = lead_on(page, repository, linked)
        (folder / name_of(page)).write_text(text, "utf-8")
    for path in sorted(linked):
        show_file(path, folder)
    for picture in DOCS.glob("*.svg"):
        shutil.copy(picture, folder)
    (folder / "assets").mkdir()
    shutil.copy(ROOT / "lakesql" / "site" / "assets" / "icon.svg", folder / "assets")
    for asset in WEBSITE.iterdir():
        if asset.suffix != ".toml":
            shutil.copy(asset, folder / "assets")


def pages() -> list[Path]:
    """The Markdown that the site is made of."""
    return [README, CHANGELOG, *sorted(DOCS.glob("*.md"))]


def name_of(page: Path) -> str:
    """What a page is called in the site: the README is its home."""
    return HOME if page == README else page.name


def lead_on(page: Path, repository: str, linked: set[str]) -> str:
    """The text of a page whose links lead to other pages of the site, or to files,
    which are added to `linked`."""

    def follow(found: re.Match[str]) -> str:
        path, hash_, anchor = found[2].partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return found[0]
        target = (page.parent / path).resolve()
        if target in known:
            address = name_of(target)
        elif target.suffix == ".svg" and target.parent == DOCS:
            address = target.name
        else:
            address = file_address(
                target.relative_to(ROOT).as_posix(), repository, linked
            )
        return f"{found[1]}{address}{hash_}{anchor}{found[3]}"

    known = set(pages())
    parts = FENCE.split(page.read_text("utf-8"))
    parts[::2] = [LINK.sub(follow, text) for text in parts[::2]]
    return "".join(parts)


def file_address(path: str, repository: str, linked: set[str]) -> str:
    """Where a file of the repository is shown: there, or on a page of the site."""
    if repository:
        return f"{repository.rstrip('/')}/{path}"
    linked.add(path)
    return page_of_file(path)


def page_of_file(path: str) -> str:
    """The page that shows a file; Zensical leaves out what begins with a dot."""
    return f"{FILES}/{path.lstrip('.')}.md"


def show_file(path: str, folder: Path) -> None:
    """A page with the text of a file of the repository."""
    text = (ROOT / path).read_text("utf-8").rstrip()
    page = folder / page_of_file(path)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(
        f"# {path}\n\n````{LANGUAGES.get(Path(path).suffix, 'text')}\n{text}\n````\n",
        "utf-8",
    )


def name_heads(site: Path) -> None:
    """The first cell of a table's head is no head where it is empty, which Markdown
    cannot say."""
    for page in site.rglob("*.html"):
        page.write_text(
            page.read_text("utf-8").replace("<th></th>", "<td></td>"), "utf-8"
        )


def navigation() -> str:
    """The shelves of the README's last section as TOML: the home, then each shelf with
    its pages."""
    shelves = [f'{{"Home" = "{HOME}"}}']
    for name, text in SHELF.findall(
        README.read_text("utf-8").split("\n## Read on\n")[1]
    ):
        addresses = [Path(path).name for _, path, _ in LINK.findall(text)]
        shelves.append(f"{{{json.dumps(name)} = {json.dumps(addresses)}}}")
    return f"[{', '.join(shelves)}]"


if __name__ == "__main__":
    main()
