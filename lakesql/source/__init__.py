"""Sources: what a stream is read from, one file a kind, and what is asked of it without
Spark."""
