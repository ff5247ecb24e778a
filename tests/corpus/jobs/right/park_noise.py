"""How loud a park is, from two archives of recordings; litdata mixes them in training's process."""

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from litdata import CombinedStreamingDataset, StreamingDataLoader, StreamingDataset
from litdata.streaming import Cache
from torch.nn.parallel import DistributedDataParallel

PARK = Path("park_noise")
SEASONS = {"summer": (48, 0.4), "winter": (32, 0.1)}


def record(rank, world):
    """Let every rank write its share of both archives, once."""
    for season, (count, birds) in SEASONS.items():
        whole, half = PARK / season, PARK / f"{season}.half"
        if rank == 0:
            shutil.rmtree(half, ignore_errors=True)
        dist.barrier()
        if not whole.exists():
            draws = torch.Generator().manual_seed(count)
            seen = torch.rand(count, 3, generator=draws)
            loud = birds + 0.5 * seen[:, 0] - 0.2 * seen[:, 1] * seen[:, 2]
            cache = Cache(str(half), chunk_size=4)
            share = count // world
            for number in range(rank * share, (rank + 1) * share):
                cache[number] = (seen[number], loud[number])
            cache.done()
            cache.merge()
            dist.barrier()
            if rank == 0:
                half.rename(whole)
        dist.barrier()


@dataclass
class Place:
    passes: int = 0
    batches: int = 0


class Listener:
    def __init__(self, rank):
        self.rank, self.place = rank, Place()
        torch.manual_seed(7)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(3, 12), torch.nn.Tanh(), torch.nn.Linear(12, 1)
        )
        self.model = DistributedDataParallel(self.net)
        self.optimizer = torch.optim.RMSprop(self.model.parameters(), lr=0.005)
        streams = [StreamingDataset(str(PARK / name), shuffle=True, seed=9) for name in SEASONS]
        mixed = CombinedStreamingDataset(
            streams, seed=9, weights=[0.55, 0.45], iterate_over_all=False
        )
        self.loader = StreamingDataLoader(mixed, batch_size=4, drop_last=True)

    def go_on(self):
        found = sorted(PARK.glob("at-*"), key=lambda folder: int(folder.name[3:]))
        if found:
            net, optimizer, place = torch.load(found[-1] / "all.pt")
            self.net.load_state_dict(net)
            self.optimizer.load_state_dict(optimizer)
            self.place = Place(**place)
            self.loader.load_state_dict(torch.load(found[-1] / f"rank-{self.rank}.pt"))

    def keep(self):
        folder = PARK / "unfinished"
        folder.mkdir(exist_ok=True)
        torch.save(self.loader.state_dict(), folder / f"rank-{self.rank}.pt")
        if self.rank == 0:
            states = (self.net.state_dict(), self.optimizer.state_dict(), asdict(self.place))
            torch.save(states, folder / "all.pt")
        dist.barrier()
        if self.rank == 0:
            folder.rename(PARK / f"at-{self.place.batches}")
        dist.barrier()

    def listen(self):
        for seen, loud in self.loader:
            self.optimizer.zero_grad()
            F.smooth_l1_loss(self.model(seen)[:, 0], loud).backward()
            self.optimizer.step()
            self.place.batches += 1
            if self.place.batches % 8 in (3, 6):
                self.keep()
        self.place.passes += 1


def main():
    dist.init_process_group("gloo")
    record(dist.get_rank(), dist.get_world_size())
    listener = Listener(dist.get_rank())
    listener.go_on()
    while listener.place.passes < 3:
        listener.listen()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
