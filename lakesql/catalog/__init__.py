"""What the Iceberg catalog says of tables, through pyiceberg: no JVM."""
