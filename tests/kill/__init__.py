"""Kill anywhere: the line as a process, killed at random moments and resumed to the end."""
