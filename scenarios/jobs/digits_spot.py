"""Train on handwritten digits on spot machines: a checkpoint now and then, and on a notice at once.

An ordinary script. It reports every few steps and saves every so many; once Ray Train says that a
node will be preempted, every report carries a checkpoint (not with `--no-jit`). Rank 0 saves all
that there is: every step is seeded by its number, so no rank has random numbers of its own to keep.
"""

import argparse
import itertools
import os
import tempfile
import time
import urllib.request

import ray.train
import ray.train.torch
import torch
import torch.distributed as dist
from digits_ddp import build_model, load_data, unwrapped
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn
from torch.utils.data import DataLoader


def save(directory, *, done, model, optimizer):
    """Rank 0 saves; the others' part of the checkpoint is empty."""
    if ray.train.get_context().get_world_rank() == 0:
        state = {
            "done": done,
            "model": unwrapped(model).state_dict(),
            "optimizer": optimizer.state_dict(),
        }
        torch.save(state, os.path.join(directory, "state.pt"))


def load(directory, *, model, optimizer):
    """Restore everything and return how many steps are done."""
    state = torch.load(os.path.join(directory, "state.pt"), weights_only=True)
    unwrapped(model).load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["done"]


def batches(loader, done):
    """Every batch from a step on, epoch after epoch, each epoch in an order of its own."""
    first = done // len(loader)
    for epoch in itertools.count(first):
        loader.sampler.set_epoch(epoch)
        yield from itertools.islice(loader, done % len(loader) if epoch == first else 0, None)


def will_be_preempted():
    """Return whether Google's metadata service announces that a rank's machine goes."""
    host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    request = urllib.request.Request(
        f"http://{host}/computeMetadata/v1/instance/preempted",
        headers={"Metadata-Flavor": "Google"},
    )
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=10) as answer:
        mine = answer.read() == b"TRUE"
    votes = torch.tensor(float(mine))
    dist.all_reduce(votes, op=dist.ReduceOp.MAX)
    return bool(votes)


def train_loop(config):
    rank = ray.train.get_context().get_world_rank()
    torch.manual_seed(config["seed"])
    loader = ray.train.torch.prepare_data_loader(
        DataLoader(load_data()[0], batch_size=config["batch_size"], shuffle=True)
    )
    model = ray.train.torch.prepare_model(build_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)
    loss_fn = nn.CrossEntropyLoss()

    done = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as directory:
            done = load(directory, model=model, optimizer=optimizer)

    model.train()
    for images, labels in batches(loader, done):
        torch.manual_seed(config["seed"] + 1000 * done + rank)
        optimizer.zero_grad()
        loss = loss_fn(model(images), labels)
        loss.backward()
        optimizer.step()
        time.sleep(config["step_s"])
        done += 1
        if done % config["report_every"]:
            continue
        metrics = {"done": done, "loss": loss.item()}
        if config["poll"]:
            notice = will_be_preempted()
        else:  # all ranks get the same
            notice = ray.train.get_preemption_info() if config["jit"] else None
        if notice or done % config["save_every"] == 0:
            with tempfile.TemporaryDirectory() as directory:
                save(directory, done=done, model=model, optimizer=optimizer)
                ray.train.report(metrics, checkpoint=Checkpoint.from_directory(directory))
        else:
            ray.train.report(metrics)
        if done >= config["steps"]:
            return


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--report-every", type=int, default=4)
    parser.add_argument("--save-every", type=int, default=60)
    parser.add_argument("--no-jit", dest="jit", action="store_false", help="take no notice")
    parser.add_argument("--poll", action="store_true", help="ask the machine, not Ray Train")
    parser.add_argument("--step-s", type=float, default=0.0, help="seconds that a step takes more")
    parser.add_argument("--batch-size", type=int, default=32, help="per worker")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--relax-collectives", action="store_true")
    parser.add_argument("--grace-s", type=float, default=0.0)
    args = parser.parse_args()

    trainer = TorchTrainer(
        train_loop,
        train_loop_config=vars(args),
        scaling_config=ScalingConfig(num_workers=args.workers),
        run_config=RunConfig(
            name="digits-spot",
            failure_config=FailureConfig(
                max_failures=0,
                relax_collectives_on_preemption=args.relax_collectives,
                preemption_grace_s=args.grace_s,
            ),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    )
    result = trainer.fit()
    print(f"finished: {result.metrics}")


if __name__ == "__main__":
    main()
