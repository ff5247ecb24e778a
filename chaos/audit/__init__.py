"""`chaos audit`: inject faults at every place that can differ, and report which ones break the job.

Runs without a fault → job profile → places → runs with a fault → findings → card. A backend
executes a plan, `chaos.check` judges its run.
"""

from chaos.callable_module import make_callable

make_callable(__name__)
