"""A declared stream: connection, format, envelope, contract. Pure."""
