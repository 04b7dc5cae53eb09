"""Templates of models in Jinja: their configuration, their edges, and the rendered
text. Pure."""
