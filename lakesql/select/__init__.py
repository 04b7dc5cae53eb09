"""What an author's SELECT says, and what is refused in it. Pure."""
