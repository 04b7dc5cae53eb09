"""The tools of `lakesql mcp` for assistants, and the limits on what these can reach."""
