"""The edge that every backend shares: clock, journals, run directories, gates.

The only readers of time and writers of files in a run. Backends import from
here; checks and renderers must not.
"""

from chaos.callable_module import make_callable

make_callable(__name__)
