"""One file that is written by a library of one's choice: in place, or beside it and renamed."""

import json
import sqlite3
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

LIBRARY, HOW = sys.argv[1:3]
Arrays = dict[str, np.ndarray]


def write(path: Path, arrays: Arrays) -> None:
    if LIBRARY == "torch.save":
        torch.save({name: torch.from_numpy(a) for name, a in arrays.items()}, path)
    elif LIBRARY == "np.savez":
        with path.open("wb") as file:
            np.savez(file, **arrays)
    elif LIBRARY == "safetensors":
        from safetensors.numpy import save_file

        save_file(arrays, path)
    elif LIBRARY == "h5py":
        import h5py

        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array
    elif LIBRARY == "sqlite3":
        with sqlite3.connect(path) as database:
            database.execute("create table if not exists kept (name primary key, list)")
            rows = [(name, json.dumps(a.tolist())) for name, a in arrays.items()]
            database.executemany("insert or replace into kept values (?, ?)", rows)


def read(path: Path) -> Arrays:
    if LIBRARY == "torch.save":
        return {name: t.numpy() for name, t in torch.load(path).items()}
    if LIBRARY == "np.savez":
        return dict(np.load(path))
    if LIBRARY == "safetensors":
        from safetensors.numpy import load_file

        return load_file(path)
    if LIBRARY == "h5py":
        import h5py

        with h5py.File(path) as file:
            return {name: file[name][()] for name in file}
    with sqlite3.connect(path) as database:
        rows = database.execute("select name, list from kept").fetchall()
    return {name: np.asarray(json.loads(text), np.float32) for name, text in rows}


dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(3)
net = torch.nn.Linear(4, 1)
path, begun = Path("newest.state"), 0
if path.exists():
    kept = read(path)
    begun = int(kept["epoch"])
    net.weight.data[:], net.bias.data[:] = (torch.tensor(kept[n]) for n in ("weight", "bias"))
dist.barrier()
both, optimizer = DistributedDataParallel(net), torch.optim.SGD(net.parameters(), lr=0.05)
for epoch in range(begun, 5):
    rows = torch.rand(48, 4, generator=torch.Generator().manual_seed(epoch))
    for batch in rows[rank::ranks].split(4):
        optimizer.zero_grad()
        (both(batch) - batch.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
    if rank == 0:
        arrays = {name: p.detach().numpy().copy() for name, p in net.named_parameters()}
        arrays["epoch"] = np.asarray(epoch + 1, np.float32)
        if HOW == "in-place":
            write(path, arrays)
        else:
            write(path.with_suffix(".part"), arrays)
            path.with_suffix(".part").replace(path)
    dist.barrier()
