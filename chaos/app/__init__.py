"""The uses of chaos, a module each: the command line and the functions for Python call these.

A request says what is asked for, in values; a listener is given what happens meanwhile.
"""
