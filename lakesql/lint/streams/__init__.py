"""Rules about streams: the order of their records, and the state that is kept of
them."""
