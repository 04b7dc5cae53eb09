"""What the author's SELECT of a model reads, returns and keeps as state, and what is
refused in it. Pure."""
