"""The nouns: frozen records of scenario, plan, event, history and verdict.

No I/O, no clock, no Ray. Every stage imports from here; this imports the records of the faults and
nothing else of ours.
"""
