"""Shapes that every other folder shares: rows, checks, money, answers, plan, report, errors.

What does not belong here: anything that reads a file, opens a socket or knows the engine.
"""
