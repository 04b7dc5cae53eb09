"""What comes before the first batch: whether anything is new, the session, what a query
starts from."""
