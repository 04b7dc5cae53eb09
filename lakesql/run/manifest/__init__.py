"""The manifest of a project as a command needs it: with what feeds have, as it was,
without what has errors."""
