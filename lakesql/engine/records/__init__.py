"""How the bytes of records become typed columns, and which records are bad."""
