"""Spark: the session, the jars it needs, reading a stream, the batch, the ledger,
queries."""
