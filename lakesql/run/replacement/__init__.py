"""The table that a rebuild fills beside the live one: whether one may begin, its job,
its end."""
