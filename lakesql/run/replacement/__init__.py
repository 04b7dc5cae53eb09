"""The table that a rebuild fills beside the live one: whether a rebuild may begin, its
job, and its end."""
