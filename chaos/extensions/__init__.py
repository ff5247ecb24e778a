"""Extensions, without which the core works: a folder each, registered by entry points.

No extension imports another; what two of them need is in the core, or a module here.
"""
