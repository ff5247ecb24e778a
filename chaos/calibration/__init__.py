"""Short real runs that measure what preflight's model needs, and that it is held against."""
