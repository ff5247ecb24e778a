"""What chaos does for its users, one module for each use: the command line and Python call these.

A request says what is asked for, in values; a listener is given what happens meanwhile.
"""
