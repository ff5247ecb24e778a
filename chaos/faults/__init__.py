"""The catalogue of harm: one file per fault, with all that chaos knows of it.

Each file holds the fault's record (its YAML), its facts (`base.py` lists
them), how it strikes through a `World`, and what proves that it landed. A new
fault is a new file: `plugins.py` finds it.
"""
