"""What a lender sets: the environment, the parameters of a run, declared lawful bases."""
