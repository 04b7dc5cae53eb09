"""Changes what exists of a model besides its file, outside of a run: its table, its
ledger and its checkpoint."""
