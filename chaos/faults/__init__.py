"""The catalogue of harm: one file per fault.

Each file holds the fault's record (its YAML), how it strikes through a
`World`, and what proves that it landed. A new fault is a new file and one
line in `FaultEntry` (model/fault_entry.py).
"""
