"""A rule of many small cases as one test: what pytest spends on a test of its own is
more than such a case takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import pytest

Test = Callable[..., None]


def each_of(
    names: str | Sequence[str],
    cases: Iterable[Any],
    *,
    ids: Callable[[Any], Any] | None = None,
) -> Callable[[Test], Test]:
    """Runs a test once for each case, written as for `pytest.mark.parametrize`, and
    raises what has failed of them all, each with its case. For cases that need no
    fixture of their own: those that the test has, its cases share."""
    arguments = (
        names.replace(" ", "").split(",") if isinstance(names, str) else [*names]
    )
    rows = [_values(case, len(arguments)) for case in cases]
    if not rows:
        raise ValueError(f"there is no case of {', '.join(arguments)}")

    def decorate(test: Test) -> Test:
        @wraps(test)
        def run_all(*instance: Any, **fixtures: Any) -> None:
            failures: list[BaseException] = []
            for row in rows:
                try:
                    test(
                        *instance, **fixtures, **dict(zip(arguments, row, strict=True))
                    )
                except (
                    Exception,
                    pytest.fail.Exception,
                    pytest.skip.Exception,
                ) as failure:
                    failure.add_note(
                        f"of the case {', '.join(str((ids or repr)(value)) for value in row)}"
                    )
                    failures.append(failure)
            if failures:
                raise BaseExceptionGroup(
                    f"{len(failures)} of {len(rows)} cases", failures
                )

        signature = inspect.signature(test)
        others = [
            parameter
            for name, parameter in signature.parameters.items()
            if name not in arguments
        ]
        if len(others) + len(arguments) != len(signature.parameters):
            raise TypeError(
                f"{test.__name__} has no argument of its own for each of {', '.join(arguments)}"
            )
        run_all.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return run_all

    return decorate


def _values(case: Any, count: int) -> tuple[Any, ...]:
    """The values of a case, for as many arguments: a tuple where there are several, as
    for pytest."""
    if count == 1:
        return (case,)
    values = tuple(case)
    if len(values) != count:
        raise ValueError(f"{len(values)} values for {count} arguments: {case!r}")
    return values
