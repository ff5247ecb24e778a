"""How full buses are, stop by stop from a stream of lines that two loading processes read."""

import math
import os
import random
from pathlib import Path

import torch
import torch.distributed as dist
from datasets import IterableDataset
from datasets.distributed import split_dataset_by_node
from torch.nn.parallel import DistributedDataParallel
from torchdata.stateful_dataloader import StatefulDataLoader

LINES = ["2", "5", "11", "13", "20", "31", "44", "50"]
STOPS, BATCH, EPOCHS, SAVE_EVERY = 18, 6, 3, 4
RUN = Path("bus_crowds")


def stops(lines):
    for line in lines:
        draw = random.Random(f"bus {line}")
        aboard = draw.gauss(10, 3)
        for stop in range(STOPS):
            on, off = draw.expovariate(1 / 6), draw.random() * aboard / 2
            aboard = max(0.0, aboard + on - off)
            yield {
                "x": [on / 10, off / 10, math.cos(stop / 3), int(line) / 50],
                "full": aboard / 40,
            }


def loader_of(rank, world):
    stream = IterableDataset.from_generator(stops, gen_kwargs={"lines": LINES})
    stream = split_dataset_by_node(stream, rank=rank, world_size=world)
    return StatefulDataLoader(
        stream.with_format("torch"), batch_size=BATCH, num_workers=2, persistent_workers=True
    )


def newest():
    if not RUN.exists():
        return None
    whole = [folder for folder in RUN.iterdir() if folder.name.isdecimal()]
    return max(whole, key=lambda folder: int(folder.name), default=None)


def write(seen, rank, shared, own):
    part = RUN / f"{seen}.part"
    part.mkdir(parents=True, exist_ok=True)
    torch.save(own, part / f"loader-{rank}.pt")
    if rank == 0:
        torch.save(shared, part / "shared.pt")
    dist.barrier()
    if rank == 0:
        part.rename(RUN / str(seen))
    dist.barrier()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(44)
    net = torch.nn.Sequential(torch.nn.Linear(4, 20), torch.nn.SiLU(), torch.nn.Linear(20, 1))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.004)
    loader = loader_of(rank, world)
    epoch, seen = 0, 0
    if (folder := newest()) is not None:
        shared = torch.load(folder / "shared.pt")
        net.load_state_dict(shared["net"])
        optimizer.load_state_dict(shared["optimizer"])
        epoch, seen = shared["epoch"], shared["seen"]
        loader.load_state_dict(torch.load(folder / f"loader-{rank}.pt", weights_only=False))

    while epoch < EPOCHS:
        for rows in loader:
            loss = (model(rows["x"]).squeeze(1) - rows["full"]).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen += 1
            if seen % (2 * SAVE_EVERY) in (SAVE_EVERY, 2 * SAVE_EVERY - 1):
                shared = {"net": net.state_dict(), "optimizer": optimizer.state_dict()}
                shared |= {"epoch": epoch, "seen": seen}
                write(seen, rank, shared, loader.state_dict())
        epoch += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
