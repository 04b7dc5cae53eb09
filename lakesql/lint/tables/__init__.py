"""Rules about tables: keys, partitions, triggers and maintenance."""
