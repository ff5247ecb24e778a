"""Stand-in for torchvision: synthetic images that can be learnt, and models of a few layers.

It holds the names that public training scripts import, and draws its random
numbers from the generators that torchvision draws from. It is for trying out
chaos on such scripts where neither their data nor the network is at hand.
"""

from . import datasets, models, transforms

__version__ = "0.0.0+standin"
__all__ = ["datasets", "models", "transforms"]
