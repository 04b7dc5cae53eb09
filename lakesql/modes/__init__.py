"""Modes: what each is configured by, what it means, and what its batches do."""
