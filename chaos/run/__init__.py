"""The edge that every backend shares: clock, journals, run directories, gates.

The only readers of time and writers of files in a run. Backends import from
here; checks and renderers must not.
"""
