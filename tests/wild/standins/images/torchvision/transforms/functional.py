"""What scripts import of torchvision's functions on images."""

from typing import Any

import numpy as np
import torch


def pil_to_tensor(image: Any) -> torch.Tensor:
    """Return an image's pixels as they are, channels first."""
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)
