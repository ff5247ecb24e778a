"""The self-test: jobs with planted bugs and right jobs, and the share of right verdicts.

Everything here is a function of the seed and of the runs' results, except
`trials`, which runs them. It uses the lanes and folders of the audit.
"""
