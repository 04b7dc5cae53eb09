"""The manifest of a project as a command needs it: with the tables and columns found in
its feeds, as it was earlier, or without the files that have errors."""
