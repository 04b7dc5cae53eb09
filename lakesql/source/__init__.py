"""Sources: what a stream is read from, one file for each kind, and what each answers
without Spark."""
