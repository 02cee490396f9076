"""A run's life: its opening, input, plan, price and close."""
