"""Train loops for Ray Train that can be wrong in one thing: the one that `config["job"]` names.

The name is a job's title in the catalogue. Where a loop compares with it, there is the bug; a loop
that is named by none of its bugs is right.
"""
