"""What the batches of each mode do: what is checked of a SELECT, the statements, and
what is said of them."""
