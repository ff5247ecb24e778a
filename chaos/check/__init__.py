"""Pure functions from a history to its tables, its checks and the verdict.

Small folds make tables of a history. Every check reads their rows and judges one promise. `judge`
puts the checks together into a verdict. This package imports `chaos.model`; `chaos.report` and the
harness import it.
"""
