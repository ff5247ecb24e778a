"""Stand-in for mlflow: a script that does not use it imports it and its module for PyTorch."""

import sys

__path__: list[str] = []  # so that `import mlflow.pytorch` finds the name below
pytorch = sys.modules["mlflow.pytorch"] = sys.modules[__name__]
