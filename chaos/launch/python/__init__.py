"""Jobs that nothing starts but their own command: `python train.py`, on this machine.

    harness ── command.py train.py …        the script as `__main__`; it may train itself
      gates       ├── python -c …spawn_main…     what it starts: `site/sitecustomize.py` is found
                  └── …                          there by PYTHONPATH, and the process watches itself

A process is a worker from where it joins a process group, and has the rank that it says there; a
script that joins none is rank 0 of one. Each start of the command is an attempt: chaos starts it
again, as a person or a scheduler does. No module in here imports Ray.
"""
