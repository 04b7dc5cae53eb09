"""What comes before the first batch: whether anything is new, the session, and where a
query starts."""
