"""Rules about streams, what order their records are in, and what state is kept of
them."""
