"""A job that keeps its own checkpoints and tells Ray of none; how it does so are its arguments."""

import argparse
import os

import ray.train
import torch
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

STEPS = 4


def train_loop(config):
    torch.manual_seed(0)
    rank = ray.train.get_context().get_world_rank()
    model = ray.train.torch.prepare_model(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    path = os.path.join(os.getcwd(), config["folder"], "latest.pt")
    inner = getattr(model, "module", model)

    def save(epoch, step):
        if rank == 0:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            state = {
                "epoch": epoch,
                "step": step,
                "model": inner.state_dict(),
                "optimizer": optimizer.state_dict(),
            }
            torch.save(state, path + ".new")
            os.replace(path + ".new", path)

    start, done = 0, 0
    found = [None]
    if rank == 0 and os.path.exists(path):
        found = [torch.load(path)]
    if torch.distributed.is_initialized():
        torch.distributed.broadcast_object_list(found)
    if found[0] is not None:
        inner.load_state_dict(found[0]["model"])
        optimizer.load_state_dict(found[0]["optimizer"])
        start, done = found[0]["epoch"], found[0]["step"]
    for epoch in range(start, config["epochs"]):
        for step in range(done, STEPS):
            data = torch.randn(4, 4, generator=torch.Generator().manual_seed(epoch * STEPS + step))
            loss = model(data).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if config["when"] == "often" and step == 1:
                save(epoch, step + 1)
        done = 0
        if config["when"] != "after":
            save(epoch + 1, 0)
        ray.train.report({"epoch": epoch, "loss": loss.item()})
        if config["when"] == "after":
            save(epoch + 1, 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--folder", default="own")
    parser.add_argument("--when", default="before", choices=["before", "after", "often"])
    args = parser.parse_args()
    TorchTrainer(
        train_loop,
        train_loop_config=vars(args),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="own-directory", failure_config=FailureConfig(max_failures=3)),
    ).fit()


if __name__ == "__main__":
    main()
