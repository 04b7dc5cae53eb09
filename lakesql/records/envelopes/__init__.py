"""The envelopes of records, one file each."""
