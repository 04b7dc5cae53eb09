"""What tables need and how healthy they are, from their state and the models. Pure."""
