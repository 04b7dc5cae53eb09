"""Models as values: their configuration, properties, tests and groups. Pure."""
