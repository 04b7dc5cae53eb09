"""Rules about what a SELECT says."""
