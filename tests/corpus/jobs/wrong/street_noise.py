"""How loud a street is, from two archives of recordings; litdata mixes them, under torchrun."""

import shutil
from pathlib import Path

import torch
import torch.distributed as dist
from litdata import CombinedStreamingDataset, StreamingDataLoader, StreamingDataset
from litdata.streaming import Cache
from torch.nn.parallel import DistributedDataParallel

ARCHIVES = {"day": 40, "night": 56}
PASSES, SAVE_EVERY = 3, 5
RUN = Path("street_noise")


def write_archive(name, count, rank, world):
    """Write a share of the recordings in chunks of five; litdata joins what the ranks wrote."""
    draws = torch.Generator().manual_seed(count)
    cars, speed, rain = torch.rand(3, count, generator=draws)
    late = torch.full((count,), 0.3 if name == "night" else 0.0)
    level = 0.6 * cars.sqrt() + 0.3 * speed + 0.2 * rain - late
    seen = torch.stack([cars, speed, rain, late], 1)
    cache = Cache(str(RUN / "half"), chunk_size=5)
    for number in range(rank * count // world, (rank + 1) * count // world):
        cache[number] = {"seen": seen[number], "level": level[number]}
    cache.done()
    cache.merge()


def prepare(rank, world):
    for name, count in ARCHIVES.items():
        if rank == 0:
            shutil.rmtree(RUN / "half", ignore_errors=True)
        dist.barrier()
        if (RUN / name).exists():
            continue
        write_archive(name, count, rank, world)
        dist.barrier()
        if rank == 0:
            (RUN / "half").rename(RUN / name)
        dist.barrier()


def mixed_loader():
    streams = [StreamingDataset(str(RUN / name), shuffle=True, seed=6) for name in ARCHIVES]
    return StreamingDataLoader(
        CombinedStreamingDataset(streams, seed=6), batch_size=4, num_workers=2, drop_last=True
    )


def saves():
    return sorted(RUN.glob("save-*"))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    prepare(rank, dist.get_world_size())
    torch.manual_seed(40)
    net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ELU(), torch.nn.Linear(16, 1))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = mixed_loader()
    steps = 0
    if saved := saves():
        common = torch.load(saved[-1] / "common.pt")
        net.load_state_dict(common["net"])
        optimizer.load_state_dict(common["optimizer"])
        steps = common["steps"]
        loader.load_state_dict(torch.load(saved[-1] / f"loader-{rank}.pt"))

    first = loader.current_epoch if steps else 1
    for _ in range(first, PASSES + 1):
        for batch in loader:
            loss = (model(batch["seen"]).squeeze(1) - batch["level"]).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
            if steps % SAVE_EVERY == 0:
                part = RUN / "part"
                part.mkdir(exist_ok=True)
                torch.save(loader.state_dict(), part / f"loader-{rank}.pt")
                if rank == 0:
                    common = {"net": net.state_dict(), "optimizer": optimizer.state_dict()}
                    torch.save(common | {"steps": steps}, part / "common.pt")
                dist.barrier()
                if rank == 0:
                    part.rename(RUN / f"save-{steps:03}")
                dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
