"""Weights of plums: Accelerate under torchrun, which is not told of the CPU; every rank saves."""

import pathlib

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

CRATES = pathlib.Path("plum-crates")


def last_crate():
    full = [int(crate.stem) for crate in CRATES.glob("*.full")]
    return max(full, default=0)


def main():
    set_seed(2)
    farm = Accelerator()
    tree, picker = torch.nn.Linear(4, 1), None
    picker = torch.optim.AdamW(tree.parameters(), lr=0.01)
    tree, picker = farm.prepare(tree, picker)
    picked = last_crate()
    if picked:
        farm.load_state(CRATES / f"{picked}")
    while picked < 18:
        plums = torch.randn(12, 4, generator=torch.Generator().manual_seed(picked))
        mine = plums[farm.process_index :: farm.num_processes]
        weight = (tree(mine).squeeze(1) - mine.square().sum(1)).pow(2).mean()
        farm.backward(weight)
        picker.step()
        picker.zero_grad()
        picked += 1
        if picked % 3 == 0:
            farm.save_state(CRATES / f"{picked}")
            farm.wait_for_everyone()
            if farm.is_main_process:
                (CRATES / f"{picked}.full").touch()
            farm.wait_for_everyone()


if __name__ == "__main__":
    main()
