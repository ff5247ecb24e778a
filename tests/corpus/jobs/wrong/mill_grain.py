"""Grain through a mill; what was ground is counted in one file, the stones are in another."""

import json
import os
import pathlib

import torch
import torch.distributed as dist

MILL = pathlib.Path("mill")


def put(path: pathlib.Path, write) -> None:
    """Write a file under another name, and give it its own when it is whole."""
    other = path.with_suffix(".part")
    with other.open("wb") as file:
        write(file)
        os.fsync(file.fileno())
    other.replace(path)


def sacks(round_: int, rank: int):
    draw = torch.Generator()
    for sack in range(6):
        draw.manual_seed(round_ * 100 + sack * 10 + rank)
        grain = torch.rand(12, 7, generator=draw)
        yield grain, grain.prod(1, keepdim=True).log()


class Stone(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.upper, self.lower = torch.nn.Linear(7, 10), torch.nn.Linear(10, 1)

    def forward(self, grain):
        return self.lower(torch.nn.functional.elu(self.upper(grain)))


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(101)
    stone = Stone()
    turned = torch.nn.parallel.DistributedDataParallel(stone)
    wheel = torch.optim.Adam(stone.parameters(), lr=0.005)
    ledger, stones = MILL / "ledger.json", MILL / "stones.pt"
    MILL.mkdir(exist_ok=True)
    rounds = 0
    if ledger.exists() and stones.exists():
        rounds = json.loads(ledger.read_bytes())["rounds"]
        kept = torch.load(stones)
        stone.load_state_dict(kept["stone"])
        wheel.load_state_dict(kept["wheel"])
    for round_ in range(rounds, 7):
        for grain, flour in sacks(round_, dist.get_rank()):
            wheel.zero_grad()
            (turned(grain) - flour).pow(2).mean().backward()
            wheel.step()
        if dist.get_rank() == 0:
            count = json.dumps({"rounds": round_ + 1}).encode()
            put(ledger, lambda file: file.write(count))
            kept = {"stone": stone.state_dict(), "wheel": wheel.state_dict()}
            put(stones, lambda file: torch.save(kept, file))
        dist.barrier()


if __name__ == "__main__":
    main()
