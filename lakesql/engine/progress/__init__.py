"""Where a query stands between checkpoint and ledger, and where it may continue."""
