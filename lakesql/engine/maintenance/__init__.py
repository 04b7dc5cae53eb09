"""Keeping the tables of a running model in order, between two of its batches."""
