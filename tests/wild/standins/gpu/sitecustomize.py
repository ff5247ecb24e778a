"""Stand-in for GPUs: scripts that insist on CUDA and nccl train on the CPU, with gloo.

Python imports a module of this name as it starts, if the folder is on its path. torch is
changed once it has been imported: what names a GPU means the CPU from then on. The scripts
stay as they were published.
"""

import functools
import importlib
import importlib.abc
import importlib.machinery
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

COUNT = int(os.environ.get("STAND_IN_GPUS", "8"))
MADE_ON = ("arange", "empty", "full", "ones", "rand", "randint", "randn", "tensor", "zeros")
QUIET = ("empty_cache", "manual_seed", "manual_seed_all", "reset_peak_memory_stats")
QUIET_TOO = ("set_device", "synchronize")


def stand_in(torch: Any) -> None:
    """Have torch take the CPU wherever a GPU is named."""
    importlib.import_module("torch.distributed.optim")  # it compiles functions as it is imported
    real, cpu = torch.device, torch.device("cpu")

    def on_cpu(value: Any) -> Any:
        """Return the CPU in the place of a GPU, and anything else as it is."""
        named = isinstance(value, str) and value.partition(":")[0] in ("cuda", "cpu")
        a_number = isinstance(value, int) and not isinstance(value, bool)
        return cpu if named or a_number else value

    def moved(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(first: Any, *args: Any, **options: Any) -> Any:
            options.update({k: on_cpu(v) for k, v in options.items() if k == "device"})
            return function(first, *map(on_cpu, args), **options)

        return call

    class Devices(type):
        def __call__(cls, *args: Any) -> Any:
            place = on_cpu(args[0] if args else "cpu")
            return place if isinstance(place, real) else real(*args)

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, real)

    torch.device = Devices("device", (), {"__module__": "torch"})
    for owner in (torch.Tensor, torch.nn.Module):
        owner.to = moved(owner.to)
        owner.cuda = lambda self, *_args, **_options: self
    torch.hub.list = lambda *_args, **_options: []  # no network either
    torch.nn.SyncBatchNorm.convert_sync_batchnorm = lambda module, *_group: module
    torch.Tensor.pin_memory = lambda self, *_args: self
    for name in MADE_ON:
        setattr(torch, name, changed(getattr(torch, name), device=on_cpu))
    torch.load = changed(torch.load, map_location=on_cpu)
    of_cuda(torch.cuda, torch.accelerator, cpu)
    of_groups(torch.distributed, on_cpu)


def of_cuda(cuda: Any, accelerator: Any, cpu: Any) -> None:
    """Have questions about GPUs be answered, except whether CUDA is there: it is not."""
    for name in (*QUIET, *QUIET_TOO):
        setattr(cuda, name, lambda *_args: None)
    cuda.device_count = accelerator.device_count = lambda: COUNT
    cuda.current_device = accelerator.current_device_index = lambda: 0
    cuda.memory_allocated = lambda *_args: 0
    cuda.memory_stats = lambda *_args: defaultdict(int)
    cuda.get_device_properties = lambda *_args: SimpleNamespace(total_memory=0)
    accelerator.is_available = lambda: True
    accelerator.current_accelerator = lambda *_args, **_options: cpu
    accelerator.set_device_index = accelerator.set_device_idx = lambda *_args: None


def of_groups(distributed: Any, on_cpu: Callable[[Any], Any]) -> None:
    """Have groups of processes join over gloo, and models be spread over CPUs."""
    from torch.distributed import device_mesh  # noqa: PLC0415 - torch has been imported by now
    from torch.nn.parallel import DistributedDataParallel as Parallel  # noqa: PLC0415

    join = changed(
        distributed.init_process_group,
        backend=lambda name: "gloo" if name and "nccl" in name else name,
        device_id=lambda _: None,
    )
    distributed.init_process_group = join
    distributed.distributed_c10d.init_process_group = join
    mesh = changed(device_mesh.init_device_mesh, device_type=lambda _: "cpu")
    distributed.init_device_mesh = device_mesh.init_device_mesh = mesh
    Parallel.__init__ = changed(Parallel.__init__, device_ids=lambda _: None)


def changed(function: Callable[..., Any], **changes: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a function whose arguments of these names are changed first.

    An argument without a name is changed only if it is `backend` or `device_type`, which are first.
    """

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        first = next(iter(changes))
        if first in ("backend", "device_type") and args:
            args = (changes[first](args[0]), *args[1:])
        options.update({k: changes[k](v) for k, v in options.items() if k in changes})
        return function(*args, **options)

    return call


class OnImport(importlib.abc.MetaPathFinder):
    """Finds torch once, as it would be found, and changes it when it has been imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        found = importlib.machinery.PathFinder.find_spec(name, path, target)
        if found is not None and found.loader is not None:
            execute = found.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                stand_in(module)

            vars(found.loader)["exec_module"] = exec_module
        return found


sys.meta_path.insert(0, OnImport())
