"""Who reads whom, and the selector grammar. Pure."""
