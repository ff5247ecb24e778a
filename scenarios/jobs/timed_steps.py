"""Train a small network in steps that take a set time: a forecast is compared with it.

An ordinary script. It saves every so many steps, and with `--jit` also as soon as Ray Train says
that a node will be preempted. With `--min-workers` it is elastic: each worker goes through a batch
of its own, so that a step with fewer workers is worth less, and there are more of them.
"""

import argparse
import os
import tempfile
import threading
import time

import ray.train
import ray.train.torch
import torch
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from ray.util.placement_group import (
    PlacementGroup,
    PlacementGroupID,
    placement_group_table,
    remove_placement_group,
)
from torch import nn


def unwrapped(model):
    """The model as it was before Ray Train made it data-parallel, which for one worker it is not."""
    return getattr(model, "module", model)


def report(*, batches, model, optimizer):
    """Rank 0 saves; the others' part of the checkpoint is empty."""
    with tempfile.TemporaryDirectory() as directory:
        if ray.train.get_context().get_world_rank() == 0:
            state = {
                "batches": batches,
                "model": unwrapped(model).state_dict(),
                "optimizer": optimizer.state_dict(),
            }
            torch.save(state, os.path.join(directory, "state.pt"))
        metrics = {"batches": batches}
        ray.train.report(metrics, checkpoint=Checkpoint.from_directory(directory))


def load(directory, *, model, optimizer):
    """Restore everything and return how many batches are done."""
    state = torch.load(os.path.join(directory, "state.pt"), weights_only=True)
    unwrapped(model).load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["batches"]


def train_loop(config):
    context = ray.train.get_context()
    rank, workers = context.get_world_rank(), context.get_world_size()
    torch.manual_seed(config["seed"])
    model = ray.train.torch.prepare_model(nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    batches, all_batches = 0, config["steps"] * config["workers"]
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as directory:
            batches = load(directory, model=model, optimizer=optimizer)

    unsaved, is_told = 0, False
    while batches < all_batches:
        draws = torch.Generator().manual_seed(config["seed"] + batches + rank)
        optimizer.zero_grad()
        model(torch.randn(8, 16, generator=draws)).square().mean().backward()
        optimizer.step()
        time.sleep(config["step_s"])
        batches, unsaved = batches + workers, unsaved + 1
        notice = config["jit"] and ray.train.get_preemption_info()  # all ranks get the same
        is_news, is_told = bool(notice) and not is_told, bool(notice)
        if is_news or unsaved == config["save_every"] or batches >= all_batches:
            report(batches=batches, model=model, optimizer=optimizer)
            unsaved = 0


def free_left_places():
    """Free the places of a worker group that was lost while it was set up.

    Ray 2.60 keeps them, and what is left of the group. Where the pool has no room for a second
    group, the job would wait for it for ever. A group that is there after another replaces it.
    """
    seen = []
    while True:
        time.sleep(0.25)
        if not ray.is_initialized():
            continue
        table = placement_group_table()
        held = [one for one, group in table.items() if group["state"] != "REMOVED"]
        seen += [one for one in held if one not in seen]
        for left in [one for one in seen if one in held][:-1]:
            remove_placement_group(PlacementGroup(PlacementGroupID.from_hex(left)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=120, help="with all workers")
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--step-s", type=float, default=0.01, help="seconds that a step takes more")
    parser.add_argument("--jit", action="store_true", help="save on a notice, at once")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--min-workers", type=int, help="elastic: go on with as few as these")
    parser.add_argument(
        "--grow-after", type=float, default=60.0, help="elastic: seconds until it may grow again"
    )
    parser.add_argument(
        "--free-left-places", action="store_true", help="of groups that were lost as they began"
    )
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.free_left_places:
        threading.Thread(target=free_left_places, daemon=True).start()

    trainer = TorchTrainer(
        train_loop,
        train_loop_config=vars(args),
        scaling_config=ScalingConfig(
            num_workers=(args.min_workers, args.workers) if args.min_workers else args.workers,
            elastic_resize_monitor_interval_s=args.grow_after,
        ),
        run_config=RunConfig(
            name="timed-steps",
            failure_config=FailureConfig(max_failures=3),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    )
    result = trainer.fit()
    print(f"finished: {result.metrics}")


if __name__ == "__main__":
    main()
