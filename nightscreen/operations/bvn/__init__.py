"""BVN consent by one-time password, from the request to the confirmed details."""
