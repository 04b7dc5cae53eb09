"""The language server: answers an editor about a project while it is typed, over stdin
and stdout."""
