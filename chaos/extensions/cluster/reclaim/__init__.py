"""The word of a platform that takes a machine back: how it is announced, and how it is done."""
