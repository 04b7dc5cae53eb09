"""lakesql: SQL models that keep Apache Iceberg tables fresh from streams, exactly
once."""

__version__ = "0.1.0"
