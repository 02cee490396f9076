"""The HTTP client of the service: building requests, reading responses, retries, connections.

Which lookups a row needs is decided in `planning/`; answers are stored by `journal/`. Only
`client/transport.py` opens sockets.
"""
