"""The state of runs and their surroundings, what needs a person, and what to type next."""
