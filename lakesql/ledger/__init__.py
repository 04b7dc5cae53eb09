"""What a table's snapshots say of the batches that it has."""
