"""Files of a project that are made from what its streams hold: contracts, recordings,
schemas."""
