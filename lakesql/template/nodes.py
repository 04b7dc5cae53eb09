"""What a template may say, as values: the checked tree that `template` reads out of Jinja's and `template_eval` runs.

There is no node for a function value, an attribute of a Python object or an import, so nothing that runs a tree can
reach one. `at` is the offset in the file's text at which the thing stands.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from lakesql.errors import Place

NEWLINE = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Source:
    """A file's text with `\\n` line ends, and the offset at which each of its lines starts."""

    path: str
    text: str
    starts: tuple[int, ...]

    def place(self, offset: int) -> Place:
        """Line and column of an offset; offsets past the end stand at the end."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self.starts, offset)
        return Place(self.path, line, offset - self.starts[line - 1] + 1)


def source_of(path: str, text: str) -> Source:
    """`text` as a Source. `\\r\\n` and `\\r` become `\\n`, which moves no line and no column."""
    if "\r" in text:
        text = NEWLINE.sub("\n", text)
    starts = [0]
    position = text.find("\n")
    while position >= 0:
        starts.append(position + 1)
        position = text.find("\n", position + 1)
    return Source(path, text, tuple(starts))


# Expressions.


@dataclass(slots=True)
class Literal:
    """A text, number, true, false or none."""

    at: int
    value: str | int | float | bool | None


@dataclass(slots=True)
class Sequence:
    """A list, or a tuple when `fixed`."""

    at: int
    items: tuple[Expression, ...]
    fixed: bool


@dataclass(slots=True)
class Mapped:
    """A dict."""

    at: int
    pairs: tuple[tuple[Expression, Expression], ...]


@dataclass(slots=True)
class Variable:
    """A name that the template itself bound: by `set`, `for`, `with`, or as a macro's parameter."""

    at: int
    name: str


@dataclass(slots=True)
class Field:
    """`this`, `is_full_refresh`, or with `key` `target.<key>`."""

    at: int
    name: str
    key: str = ""


@dataclass(slots=True)
class Read:
    """`stream('x')` or `ref('x')`."""

    at: int
    function: str
    name: str


@dataclass(slots=True)
class Var:
    """`var('x')` or `var('x', default)`."""

    at: int
    name: str
    default: Expression | None


@dataclass(slots=True)
class Call:
    """A call of a macro, of `range` or of `caller`."""

    at: int
    name: str
    arguments: tuple[Expression, ...]
    named: Mapping[str, Expression]


@dataclass(slots=True)
class Method:
    """`value.name(…)`, one of the methods that a template may call."""

    at: int
    target: Expression
    name: str
    arguments: tuple[Expression, ...]


@dataclass(slots=True)
class Item:
    """`value.key` or `value[key]`: an entry of a dict, an item of a list, a character of a text."""

    at: int
    target: Expression
    key: Expression


@dataclass(slots=True)
class Slice:
    """`value[start:stop:step]`."""

    at: int
    target: Expression
    bounds: tuple[Expression | None, Expression | None, Expression | None]


@dataclass(slots=True)
class Filter:
    """`value | name(…)`."""

    at: int
    target: Expression
    name: str
    arguments: tuple[Expression, ...]
    named: Mapping[str, Expression]


@dataclass(slots=True)
class Test:
    """`value is name(…)`."""

    at: int
    target: Expression
    name: str
    arguments: tuple[Expression, ...]


@dataclass(slots=True)
class Binary:
    """`left operator right` for `+ - * / // % **`, and for `and`, `or`."""

    at: int
    operator: str
    left: Expression
    right: Expression


@dataclass(slots=True)
class Unary:
    """`-x`, `+x`, `not x`."""

    at: int
    operator: str
    operand: Expression


@dataclass(slots=True)
class Concat:
    """`a ~ b ~ c`."""

    at: int
    items: tuple[Expression, ...]


@dataclass(slots=True)
class Comparison:
    """`a < b <= c`: each operator with its right side."""

    at: int
    left: Expression
    others: tuple[tuple[str, Expression], ...]


@dataclass(slots=True)
class Choice:
    """`then if condition else otherwise`; without an else, the empty text."""

    at: int
    condition: Expression
    then: Expression
    otherwise: Expression | None


Computed = (
    Literal
    | Sequence
    | Mapped
    | Variable
    | Field
    | Var
    | Call
    | Method
    | Item
    | Slice
    | Filter
    | Test
    | Binary
    | Unary
    | Concat
    | Comparison
    | Choice
)
Expression = Read | Computed


# Statements.


@dataclass(slots=True)
class Text:
    """Text outside of tags."""

    at: int
    text: str


@dataclass(slots=True)
class Emit:
    """`{{ value }}`; `at` is where the `{{` stands."""

    at: int
    value: Expression


@dataclass(slots=True)
class If:
    """`if`, its `elif`s as an If in `otherwise`."""

    at: int
    condition: Expression
    body: Body
    otherwise: Body


@dataclass(slots=True)
class For:
    """`for targets in items if condition`; `otherwise` runs when there was nothing to go through."""

    at: int
    targets: Targets
    items: Expression
    condition: Expression | None
    body: Body
    otherwise: Body


@dataclass(slots=True)
class Set:
    """`set targets = value`."""

    at: int
    targets: Targets
    value: Expression


@dataclass(slots=True)
class Capture:
    """A block whose text goes through `value`, in which it is the variable `CAPTURED`: then into `name`, or out."""

    at: int
    body: Body
    value: Expression
    name: str | None


@dataclass(slots=True)
class With:
    """`with a = …, b = …`."""

    at: int
    bound: tuple[tuple[Targets, Expression], ...]
    body: Body


@dataclass(slots=True)
class CallBlock:
    """`call(parameters) macro(…)`: the macro's `caller()` gives the text of `body`."""

    at: int
    call: Call
    parameters: Parameters
    body: Body


CAPTURED = ""
Targets = str | tuple["Targets", ...]
Parameters = tuple[tuple[str, Expression | None], ...]
Statement = Text | Emit | If | For | Set | Capture | With | CallBlock
Body = tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro: its parameters with their defaults, its body, the macros that it calls, and its place and text.

    A `local` one stands in a model and sees the model's variables; others see their parameters alone.
    """

    name: str
    parameters: Parameters
    body: Body
    calls: frozenset[str]
    source: Source
    at: int
    text: str
    local: bool
