"""The state of tables and the models, as a list of steps. Pure."""
