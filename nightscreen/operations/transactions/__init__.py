"""Transactions of customers who consented: asked for, held against what is known, kept."""
