"""`lakesql clean`: remove files that can be created again."""

from __future__ import annotations

import click

from lakesql.cli.options import Command, Given

WRITTEN = (
    "compiled",
    "cache",
    "site",
    "manifest.json",
    "plan.json",
    "run_results.json",
    "test_results.json",
    "*.tmp",
)
LOGGED = ("lakesql.log*", "spark.log*", "spark.out*", "java-crash-*")


@click.command("clean", cls=Command)
@click.pass_obj
def command(given: Given) -> None:
    """Remove lakesql's own files from target/ and logs/. Tables, checkpoints and other
    files stay.

    A Spark process that is kept there for the next command is ended first, if no
    command uses it.
    """
    import shutil

    from lakesql.cli.options import find_directory, find_outputs
    from lakesql.cli.report import say
    from lakesql.project.files import read_project

    outputs = read_project(
        find_directory(given.options), find_outputs(given.options)
    ).outputs
    in_use: list[str] = []
    if outputs.warm.is_dir():
        from lakesql.engine.spark.warm import end_keepers

        ended, in_use = end_keepers(outputs.warm)
        for name in ended:
            say(f"Ended the warm Spark of {name}", given.options)
        for name in in_use:
            say(f"The warm Spark of {name} is in use, and goes on", given.options)
    written = WRITTEN if in_use else (*WRITTEN, "warm")
    for folder, patterns in ((outputs.target, written), (outputs.logs, LOGGED)):
        if folder.is_symlink() or not folder.is_dir():
            continue
        for path in (path for pattern in patterns for path in folder.glob(pattern)):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        if any(folder.iterdir()):
            say(
                f"Removed lakesql's files from {folder.name}/, which holds other files too",
                given.options,
            )
        else:
            folder.rmdir()
            say(f"Removed {folder.name}/", given.options)
