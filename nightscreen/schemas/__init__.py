"""Shapes that all folders share; nothing here reads files, opens sockets or uses Prefect."""
