"""Columns of the whole project and the edges between them: which are made of which,
through all models. Pure."""
