"""Where a query continues: its checkpoint compared with its table's ledger."""
