"""BVN consent by one-time password: requests, confirmations and the confirmed details."""
