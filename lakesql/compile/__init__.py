"""Values to SQL text. Pure."""
