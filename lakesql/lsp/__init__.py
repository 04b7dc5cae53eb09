"""The language server: what an editor asks of a project while it is typed, over stdin
and stdout."""
