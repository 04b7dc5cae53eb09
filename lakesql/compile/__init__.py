"""From a checked SELECT to the SQL text of every statement. Pure."""
