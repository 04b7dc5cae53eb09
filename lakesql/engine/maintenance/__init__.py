"""Maintenance of the tables of a running model, between two of its batches."""
