"""`lakesql lsp`: the language server, for editors."""

from __future__ import annotations

import sys
from functools import partial

import click

from lakesql.cli.options import Command, Given


@click.command("lsp", cls=Command)
@click.pass_obj
def command(given: Given) -> None:
    """Serve an editor: diagnostics of `parse` and `lint`, completion, docs, definitions
    and renames.

    An editor starts it and talks to it over stdin and stdout, by the Language Server
    Protocol; docs/editors.md describes the setup. It serves the projects of the
    editor's folders, on the target of --target. It writes no file, starts no Java and
    uses no network. It needs the extra `lsp`.
    """
    from lakesql.cli.project import profile_folders, read_vars
    from lakesql.lsp.features import build_server
    from lakesql.lsp.project_reader import ServerOptions

    options = given.options
    served = ServerOptions(
        options.target, read_vars(options.vars), partial(profile_folders, options)
    )
    only = options.project_dir.absolute() if options.project_dir is not None else None
    server = build_server(served, only)
    # anything printed to stdout would be taken for an answer
    output, sys.stdout = sys.stdout, sys.stderr
    server.start_io(sys.stdin.buffer, output.buffer)
