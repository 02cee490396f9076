"""What is asked in one customer's name: explained, shown, erased; and purging by age."""
