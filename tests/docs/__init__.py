"""The documentation is tested against the code: generated pages, examples, commands and links."""
