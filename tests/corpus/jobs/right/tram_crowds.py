"""How full trams are, from a stream of lines that two new loading processes read in each pass."""

import math
import random
from pathlib import Path

import torch
import torch.distributed as dist
from datasets import IterableDataset
from datasets.distributed import split_dataset_by_node
from torch.nn.parallel import DistributedDataParallel
from torchdata.stateful_dataloader import StatefulDataLoader

TRAMS = [1, 3, 4, 6, 7, 9, 10, 12]
HALTS, PASSES = 14, 3
SHELF = Path("tram_crowds")


def halts(trams):
    for tram in trams:
        chance = random.Random(900 + tram)
        inside = chance.gauss(20, 4)
        for halt in range(HALTS):
            on = chance.expovariate(1 / 8)
            inside = max(0.0, 0.7 * inside + on)
            yield {"x": [on / 16, math.sin(halt / 2), tram / 12], "y": inside / 60}


class Driver:
    def __init__(self):
        self.rank = dist.get_rank()
        lines = IterableDataset.from_generator(halts, gen_kwargs={"trams": TRAMS})
        mine = split_dataset_by_node(lines, rank=self.rank, world_size=dist.get_world_size())
        self.loader = StatefulDataLoader(mine.with_format("torch"), batch_size=4, num_workers=2)
        torch.manual_seed(2)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(3, 18), torch.nn.Hardswish(), torch.nn.Linear(18, 1)
        )
        self.ddp = DistributedDataParallel(self.net)
        self.sgd = torch.optim.SGD(self.ddp.parameters(), lr=0.05, momentum=0.9)
        self.at = [0, 0]

    def unpack(self):
        boxes = [box for box in SHELF.glob("box*") if box.suffix == ""]
        if boxes:
            box = max(boxes, key=lambda box: int(box.name[3:]))
            shared = torch.load(box / "shared")
            self.net.load_state_dict(shared["net"])
            self.sgd.load_state_dict(shared["sgd"])
            self.at = shared["at"]
            self.loader.load_state_dict(torch.load(box / f"mine{self.rank}", weights_only=False))

    def pack(self):
        box = SHELF / f"box{self.at[1]}"
        open_box = box.with_suffix(".open")
        open_box.mkdir(parents=True, exist_ok=True)
        torch.save(self.loader.state_dict(), open_box / f"mine{self.rank}")
        if self.rank == 0:
            shared = {"net": self.net.state_dict(), "sgd": self.sgd.state_dict(), "at": self.at}
            torch.save(shared, open_box / "shared")
        dist.barrier()
        if self.rank == 0:
            open_box.rename(box)
        dist.barrier()

    def drive(self):
        for rows in self.loader:
            self.sgd.zero_grad()
            torch.nn.functional.huber_loss(self.ddp(rows["x"])[:, 0], rows["y"]).backward()
            self.sgd.step()
            self.at[1] += 1
            if self.at[1] % 5 == 2:
                self.pack()
        self.at[0] += 1


def main():
    dist.init_process_group("gloo")
    driver = Driver()
    driver.unpack()
    while driver.at[0] < PASSES:
        driver.drive()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
