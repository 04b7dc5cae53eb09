"""What an assistant may ask of a project by `lakesql mcp`, and how little it reaches
beside the answer."""
