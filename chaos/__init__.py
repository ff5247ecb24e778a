"""Fault-tolerance and spot-preemption testing for Ray Train and PyTorch.

A scenario file goes in, a real training job is struck at exact places in
training, and a verdict comes out with the evidence for it.
"""

__version__ = "0.1.0"
