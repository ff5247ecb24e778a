"""The oracle on trial: known bugs and known good jobs, and how often chaos says the right thing.

Everything here is a function of the seed and of what the runs came to, except
`trials`, which runs them. It stands on the audit's lanes and folders.
"""
