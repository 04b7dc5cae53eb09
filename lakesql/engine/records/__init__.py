"""Bytes to typed records: JSON, CSV, Avro, text."""
