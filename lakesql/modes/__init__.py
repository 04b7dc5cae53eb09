"""The modes: the options of each, what they mean, and what its batches do."""
