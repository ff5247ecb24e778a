"""A shell's `until` loop as a launcher: it starts a script again until that ends well."""
