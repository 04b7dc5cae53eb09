"""How streams are read with Spark, whatever their sources are."""
