"""One customer's data: explained, shown to the customer, erased; and purging by age."""
