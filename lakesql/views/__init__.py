"""How the table of a SELECT over tables is kept equal to it, and the statements that
compute what has changed."""
