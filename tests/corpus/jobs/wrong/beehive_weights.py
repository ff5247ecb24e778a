"""The weight of beehives over a summer; `newest` is a line with the name of the file to go on from."""

import argparse
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as Parallel


class Apiary(torch.utils.data.Dataset):
    def __init__(self, hives: int = 96):
        draw = torch.Generator().manual_seed(512)
        self.days = torch.rand(hives, 4, generator=draw)
        self.grams = (self.days[:, :2].sum(1) - self.days[:, 3] ** 2).unsqueeze(1)

    def __len__(self):
        return len(self.days)

    def __getitem__(self, n):
        return self.days[n], self.grams[n]


def save(folder: Path, month: int, scales, keeper) -> None:
    name = f"m{month:02d}.bin"
    state = {"next": month + 1, "scales": scales.state_dict(), "keeper": keeper.state_dict()}
    torch.save(state, folder / f"{name}.new")
    (folder / f"{name}.new").rename(folder / name)
    (folder / "newest").write_text(name)


def newest(folder: Path):
    line = folder / "newest"
    name = line.read_text().strip() if line.exists() else ""
    return torch.load(folder / name) if name else None


def main(arguments) -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(60)
    folder = Path(arguments.hives)
    folder.mkdir(exist_ok=True)
    scales = torch.nn.Sequential(torch.nn.Linear(4, 12), torch.nn.Tanh(), torch.nn.Linear(12, 1))
    keeper = torch.optim.Adamax(scales.parameters(), lr=0.01)
    found = newest(folder)
    month = 0
    if found:
        scales.load_state_dict(found["scales"])
        keeper.load_state_dict(found["keeper"])
        month = found["next"]
    weigh, hives = Parallel(scales), Apiary()
    while month < arguments.months:
        which = torch.utils.data.DistributedSampler(hives, seed=month, drop_last=True)
        for days, grams in torch.utils.data.DataLoader(hives, batch_size=8, sampler=which):
            loss = (weigh(days) - grams).square().mean()
            keeper.zero_grad(set_to_none=True)
            loss.backward()
            keeper.step()
        if dist.get_rank() == 0:
            save(folder, month, scales, keeper)
        dist.barrier()
        month += 1


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--months", type=int, default=7)
    options.add_argument("--hives", default="hives")
    main(options.parse_args())
