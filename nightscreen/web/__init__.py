"""What the desk and the portal share: one guard for every request, one way to serve, forms."""
