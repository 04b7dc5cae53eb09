"""The ledger: the record of a model's batches in the snapshots of its table."""
