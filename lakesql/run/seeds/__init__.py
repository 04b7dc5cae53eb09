"""The tables of seeds: their files checked, their rows written, and how they are. No
JVM."""
