"""Train loops with a planted bug each, and right ones that look suspicious.

Ordinary loops for Ray Train; what is wrong with each is in its docstring and in one
argument. A file holds the loops that save alike: the right one first, then its bugs.
"""
