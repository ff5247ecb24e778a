"""Renderers: a finished run, or the rows of a suite, as text for people and machines.

Everything here is a function of its arguments: no file is written, no clock
is read. The harness decides on the path and the time of a page.
"""
