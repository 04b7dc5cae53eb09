"""Renders the pages of a project's site as HTML, and the files that they load. All text
from the project is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup, escape

from lakesql import __version__
from lakesql.conditions import CONDITIONS
from lakesql.site.content import NodePage, SiteContent

_TEMPLATES = {
    "model": "model.html",
    "stream": "stream.html",
    "seed": "seed.html",
    "table": "table.html",
}


def render_site(content: SiteContent) -> Iterator[tuple[str, str]]:
    """All pages except those of nodes, and the data that scripts read: for each file
    its path below the site's folder, and its text."""
    environment = _environment(content)
    yield (
        "index.html",
        environment.get_template("overview.html").render(root="", here="overview"),
    )
    yield (
        "graph.html",
        environment.get_template("graph.html").render(root="", here="graph"),
    )
    yield (
        "conditions/index.html",
        environment.get_template("conditions.html").render(
            root="../", here="conditions"
        ),
    )
    of_condition = environment.get_template("condition.html")
    for name, condition in CONDITIONS.items():
        found = [problem for problem in content.problems if problem.condition == name]
        said = of_condition.render(
            root="../", here="", name=name, condition=condition, found=found
        )
        yield f"conditions/{name}.html", said
    yield "data.js", f"window.lakesqlSite = {_data(content)};\n"


def render_nodes(
    content: SiteContent, pages: Iterable[NodePage]
) -> Iterator[tuple[str, str]]:
    """The given pages of models, streams, seeds and tables: for each file its path
    below the site's folder, and its text."""
    environment = _environment(content)
    templates = {
        type_: environment.get_template(name) for type_, name in _TEMPLATES.items()
    }
    for page in pages:
        yield (
            page.href,
            templates[page.resource_type].render(root="../", here="", page=page),
        )


def site_assets() -> Iterator[tuple[str, bytes]]:
    """The files that pages load: styles, scripts, and libraries with their licences."""
    assets = files("lakesql.site") / "assets"
    yield from _files_below(assets, "assets")
    worker = [
        (assets / name).read_text("utf-8")
        for name in ("vendor/dagre.min.js", "layout.js")
    ]
    # The script is a string, as a page that is opened from a file can start a worker
    # only from a string.
    source = htmlsafe_json_dumps("\n".join(worker), ensure_ascii=False)
    yield "assets/layout-source.js", f"window.lakesqlLayout = {source};\n".encode()


def _files_below(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for each in sorted(folder.iterdir(), key=lambda it: it.name):
        if each.is_dir():
            yield from _files_below(each, f"{path}/{each.name}")
        else:
            yield f"{path}/{each.name}", each.read_bytes()


def _data(content: SiteContent) -> str:
    conditions = [[name, condition.meaning] for name, condition in CONDITIONS.items()]
    return str(
        htmlsafe_json_dumps(
            {**content.data, "conditions": conditions},
            ensure_ascii=False,
            separators=(",", ":"),
        )
    )


def _environment(content: SiteContent) -> Environment:
    environment = Environment(
        loader=PackageLoader("lakesql.site"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"prose": _prose, "bars": _bars, "anchor": _anchor}
    environment.globals |= {
        "site": content,
        "version": __version__,
        "conditions": CONDITIONS,
        "totals": _totals(content.pages),
    }
    return environment


def _totals(pages: tuple[NodePage, ...]) -> Mapping[str, int]:
    return {
        type_: sum(page.resource_type == type_ for page in pages)
        for type_ in _TEMPLATES
    }


@lru_cache(4_096)
def _prose(text: str) -> Markup:
    """A text as HTML. Of Markdown, words in backticks become code, and links become
    their text; everything else is plain text."""
    plain = _LINK.sub(r"\1", text)
    parts = _CODE.split(plain)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    )


_LINK = re.compile(r"\[([^\]\[]+)\]\([^()\s]+\)")
_CODE = re.compile(r"`([^`\n]+)`")


def _bars(values: tuple[float | None, ...]) -> list[tuple[int, float]]:
    """The bars of a figure: the index of each, and its height from 0 to 1."""
    most = max((value for value in values if value is not None), default=0) or 1
    return [
        (at, round(max(value / most, 0.04), 3))
        for at, value in enumerate(values)
        if value is not None
    ]


def _anchor(name: str) -> str:
    """The anchor of a column on its page. Characters other than letters, digits and
    underscores are replaced by their codes."""
    return "column-" + "".join(
        each if each.isalnum() or each == "_" else f"-{ord(each):x}-" for each in name
    )
