"""Prefect tasks, thin: each finds its run by id, calls a station, returns small numbers.

Paths and ids cross the engine, never rows. What is computed lives in `runs/`.
"""
