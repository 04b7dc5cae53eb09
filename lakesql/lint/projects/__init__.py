"""Rules about a project as a whole, and about files beside its models."""
