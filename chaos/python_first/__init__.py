"""Scenarios as Python writes them, for those who would rather not write YAML.

`faults` has one function for each fault, `scenario` checks what was given as
the reader of files checks a file. Nothing here needs pytest, Ray or torch.
"""
