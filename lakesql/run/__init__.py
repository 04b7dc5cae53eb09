"""What runs jobs: the commands that do, their supervisor and the jobs; and, in rooms,
what a command needs for it."""
