"""How texts of profiles.yml with `{{ env_var('X') }}` are rendered; nothing else of
Jinja is allowed there."""

from __future__ import annotations

from collections.abc import Mapping

import jinja2
from jinja2 import nodes

from lakesql.errors import Place, Problem


def render_text(
    text: str, place: Place, environ: Mapping[str, str], problems: list[Problem]
) -> str:
    """The text with the values of its variables. Problems are added to `problems`. No
    template is executed: only texts and calls of `env_var` are read from its tree."""
    pieces: list[str] = []
    try:
        for node in _ENVIRONMENT.parse(text).iter_child_nodes():
            for part in (
                node.iter_child_nodes() if isinstance(node, nodes.Output) else (node,)
            ):
                pieces.append(_read_part(part, place, environ, problems))
    except jinja2.TemplateSyntaxError as error:
        problems.append(
            Problem("bad-profile-template", str(error.message), place=place)
        )
    return "".join(pieces)


def _read_part(
    part: nodes.Node, place: Place, environ: Mapping[str, str], problems: list[Problem]
) -> str:
    match part:
        case nodes.TemplateData(data=text):
            return text
        case nodes.Call(
            node=nodes.Name(name="env_var"),
            args=args,
            kwargs=[],
            dyn_args=None,
            dyn_kwargs=None,
        ):
            texts = [
                arg.value
                for arg in args
                if isinstance(arg, nodes.Const) and isinstance(arg.value, str)
            ]
            if len(texts) == len(args) and len(texts) in (1, 2):
                value = environ.get(*texts)
                if value is None:
                    what = f"The environment variable {texts[0]} is not set."
                    why = f"Looked in: this process's environment; a default in env_var('{texts[0]}', '…') of {place}."
                    fix = f"Set it (`export {texts[0]}=…`), or give it a default."
                    problems.append(Problem("env-var-missing", what, why, fix, place))
                return value or ""
    problems.append(
        Problem("bad-profile-template", "This is not a call of env_var.", place=place)
    )
    return ""


_ENVIRONMENT = jinja2.Environment()
