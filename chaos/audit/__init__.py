"""`chaos audit`: strike a job at every place that can differ, and say which it does not survive.

Clean runs → extent → kill map → struck runs → findings → card. What executes
a plan is a backend's; what judges it is `chaos.check`.
"""
