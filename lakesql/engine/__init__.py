"""Everything that runs in Spark: the session and its jars, reading streams, the batch
and its commit, the ledger, refreshes and maintenance."""
