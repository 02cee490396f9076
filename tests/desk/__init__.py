"""The desk: users, pages, and what hostile requests come to."""
