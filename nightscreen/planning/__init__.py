"""Planning: which lookups each row needs, what they may cost, and their order; nothing is sent."""
