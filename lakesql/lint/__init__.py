"""Lint: finds what a project may say but its author may regret, by rules with codes,
each in a file of its own."""
