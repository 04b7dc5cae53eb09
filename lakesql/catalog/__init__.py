"""Access to the Iceberg catalog and its tables by pyiceberg, without a JVM."""
