"""The stations of every flow. No engine here; the service is called in `calling` and `consents`."""
