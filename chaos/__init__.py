"""Fault-tolerance and spot-preemption testing for Ray Train and PyTorch.

A scenario file goes in, a real training job is struck at exact places in
training, and a verdict comes out with the evidence for it.
"""

from chaos.declared import declare

__version__ = "0.1.0"

__all__ = ["__version__", "declare"]
