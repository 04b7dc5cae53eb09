"""Two versions of a project, compared: what the change does to live tables and their
streams. Pure."""
