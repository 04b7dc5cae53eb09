"""Rules about the SQL of a SELECT."""
