"""What runs beside screening share: how they are opened, make calls, and account for them."""
