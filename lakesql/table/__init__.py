"""A table's state, read once from its metadata, and which maintenance is due on it.
Without Spark."""
