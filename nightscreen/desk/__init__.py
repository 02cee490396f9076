"""The desk: the web pages the lender's own people work in.

A context over parts that exist: what a run, a quote, a decision or a review is stays in `results/`.
Here are users and their rights, sessions, the audit, and one view a page.
"""
