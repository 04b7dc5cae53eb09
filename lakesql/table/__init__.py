"""A table as it is, read once from its metadata, and which maintenance is due on it.
Without Spark."""
