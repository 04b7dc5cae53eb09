"""Schema registries: what a topic's records were written with, by the ids that they
name."""
