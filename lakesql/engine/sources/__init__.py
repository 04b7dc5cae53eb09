"""Reading streams, whatever the connection is."""
