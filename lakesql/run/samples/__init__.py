"""Files of a project that are made of what its streams hold: contracts, recordings,
schemas."""
