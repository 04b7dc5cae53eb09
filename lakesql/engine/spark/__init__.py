"""Java and the Spark session: jars, start, failures."""
