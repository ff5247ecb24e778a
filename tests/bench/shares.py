"""The cost of watching sharded state, beside that of an optimizer's step on as many elements.

One rank of two, which holds half of every tensor, on one thread. The ranks never speak to each
other.
"""

import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from chaos.probe.state.canonical import Encoding
from chaos.probe.state.part import start_share_sums

ROWS, COLUMNS, LAYERS, TIMES = 1000, 1000, 5, 9


def median_s(action: Callable[[], object]) -> float:
    """Return the median time of an action, in seconds, after a first one."""
    action()
    found = []
    for _ in range(TIMES):
        start = time.perf_counter()
        action()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def digest(tensors: list[DTensor]) -> str:
    encoding = Encoding()
    for tensor in tensors:
        encoding.add_tensor(tensor)
    return encoding.digest()


def main() -> None:
    """Print the times per element, and their ratios to an optimizer's step."""
    torch.set_num_threads(1)
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    mesh = init_device_mesh("cpu", (2,))
    weights = [torch.randn(ROWS, COLUMNS, requires_grad=True) for _ in range(LAYERS)]
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    optimizer = torch.optim.AdamW(weights)
    shards = [DTensor.from_local(w.detach(), mesh, [Shard(0)], run_check=False) for w in weights]
    step = median_s(optimizer.step)
    count = ROWS * COLUMNS * LAYERS

    def share() -> object:
        return start_share_sums([("", shard) for shard in shards])()

    for name, seconds in (
        ("a step of AdamW", step),
        ("a digest", median_s(lambda: digest(shards))),
        ("a share", median_s(share)),
    ):
        print(f"{name}: {seconds / count * 1e9:.1f} ns per element, {seconds / step:.2f} steps")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
