"""The tables of seeds: checks their files, writes their rows, and reads their status.
Needs no JVM."""
