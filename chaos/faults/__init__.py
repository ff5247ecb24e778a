"""The catalogue of faults: one file per fault, with everything that is specific to it.

Each file holds the fault's record (its YAML), its facts (`base.py` lists them), its injection
through a `World`, and the proof that it landed. A new fault is a new file: `plugins.py` finds it.
"""
