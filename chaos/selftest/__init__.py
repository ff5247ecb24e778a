"""The self-test: jobs with planted bugs and right jobs, and how often chaos judges them rightly.

Everything here is a function of the seed and of what the runs came to, except
`trials`, which runs them. It stands on the audit's lanes and folders.
"""
