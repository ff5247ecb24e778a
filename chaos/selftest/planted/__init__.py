"""Train loops with a planted bug each, and right ones that look suspicious.

Ordinary loops for Ray Train; the bug of each is in its docstring and in one argument.
A file holds the loops with the same saves: the right one first, then its bugs.
"""
