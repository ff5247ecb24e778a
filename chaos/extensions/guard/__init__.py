"""`chaos guard`: each restart of a real training, compared with what its checkpoint was made of.

    process.py   hooks of a rank ──▶ watch.py   what a rank is, saves and reads
                                        │ records.py, by folder.py
                                        ▼
    judge.py     state, place, losses and samples of a restart, as functions of records
    report.py    a folder's restarts          incident.py   a scenario that does one again

No harness goes along, and nothing waits: a rank writes what it saved into the guard's folder, and
the next start reads it there.
"""

from importlib import import_module

from chaos.callable_module import make_callable

# which a training script imports, and no more
make_callable(__name__, "chaos.extensions.guard.process")


def __getattr__(name: str) -> object:
    if name == "RayCallback":
        return getattr(import_module("chaos.extensions.guard.ray_callback"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
