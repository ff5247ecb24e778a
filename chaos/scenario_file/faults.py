"""One function for each fault: `kill_worker(rank=1, epoch=2, step=5)` is an entry of `faults`.

They are made from the records in `FaultEntry`, so a new fault needs no line here. `signatures`
writes the stub `faults.pyi` for editors and type checkers.
"""

from chaos.scenario_file.from_python import BY_NAME

globals().update(BY_NAME)
__all__ = list(BY_NAME)
