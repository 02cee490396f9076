"""Flows and tasks on a real Prefect server, with a real worker."""
