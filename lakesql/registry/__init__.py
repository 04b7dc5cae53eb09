"""Schema registries: the schemas that a topic's records were written with, by the ids
in the records."""
