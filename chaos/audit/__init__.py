"""`chaos audit`: inject faults at every place that can differ, and report which ones break the job.

Runs without a fault → job profile → places → runs with a fault → findings → card. What executes
a plan is a backend's; what judges it is `chaos.check`.
"""
