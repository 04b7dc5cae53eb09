"""A model: its template, its SELECT, its configuration, its properties. Pure."""
