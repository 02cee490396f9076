"""The desk: the web pages the lender's own people work in.

This package has users and their rights, sessions, the audit, and one view for each page. Runs,
quotes, decisions and reviews are defined elsewhere, such as in `results/`.
"""
