"""Applies plans and supervises queries."""
