"""Where a query stands between its checkpoint and its table's ledger, and where it may
continue."""
