"""What models make of given or stored rows, without writing to their tables: data
tests, unit tests, previews."""
