"""How records are written: formats of values, and envelopes around rows, one file each.
Pure."""
