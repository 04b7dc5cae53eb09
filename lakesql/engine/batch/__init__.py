"""One micro-batch, from raw records to a commit."""
