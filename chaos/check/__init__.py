"""From what was seen to what it means: pure functions over a history.

Small folds make tables of a history, every check reads their rows and judges
one promise, and `judge` puts the checks together into a verdict. Imports
`chaos.model`; `chaos.report` and the harness import this.
"""
