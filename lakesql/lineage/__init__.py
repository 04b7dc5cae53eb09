"""Which columns of the project are made of which, through all models. Pure."""
