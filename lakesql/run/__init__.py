"""Runs jobs: the commands that do so, the supervisor and the jobs; and, in rooms, what
a command needs for it."""
