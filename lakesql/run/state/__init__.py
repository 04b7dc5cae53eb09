"""Changes what there is of a model beside its file, outside of a run: its table, its
ledger and its checkpoint."""
