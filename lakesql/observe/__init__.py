"""Renderers of events."""
