"""What the streams of a project are on its target: topics, files, columns, tables,
values; asked without Spark."""
