"""What each row needs, what that may cost, and in which order it is asked; nothing is sent here."""
