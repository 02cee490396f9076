"""Each check in a module of its own that declares what there is to know of it."""
