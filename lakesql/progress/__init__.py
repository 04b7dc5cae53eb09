"""Where a query continues: what its checkpoint and its table's ledger say, compared."""
