"""The batches of each mode: what is refused in a SELECT, the statements, and the texts
about them."""
