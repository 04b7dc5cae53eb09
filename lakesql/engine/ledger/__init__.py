"""The record of progress in a table's snapshots."""
