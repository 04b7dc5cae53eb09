"""The comparison of two versions of a project: what a change does to live tables and
their streams. Pure."""
