"""The project's files: settings, profiles, finding and reading them."""
