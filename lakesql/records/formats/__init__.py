"""The formats of records, one file each."""
