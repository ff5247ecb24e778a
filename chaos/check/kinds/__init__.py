"""The kinds of findings: what is broken, as facts and without a sentence.

A kind's name stands in verdicts, reports, scenarios and users' CI, so it is never changed without
an alias. Two findings are the same defect if check, kind and parts are the same.
"""
