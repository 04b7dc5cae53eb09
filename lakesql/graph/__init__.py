"""The graph of a project, which nodes read which, and the grammar of selections.
Pure."""
