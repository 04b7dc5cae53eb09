"""Rules about a project as a whole, and about its files besides models."""
