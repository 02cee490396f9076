"""How runs and their surroundings stand, what needs a person, and what to type next."""
