"""The streams of a project on its target, found without Spark: topics, files, columns,
tables, values."""
