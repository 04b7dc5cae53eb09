"""An author's Jinja template: configuration, edges, text. Pure."""
