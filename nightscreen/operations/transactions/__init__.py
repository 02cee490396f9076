"""Transactions of customers who consented: pulled, compared and saved."""
