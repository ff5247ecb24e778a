"""A job that leaves more than its metrics show; what it forgets at a resume is an argument."""

import argparse
import json
import os
import pickle
import tempfile
import threading
import time

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


def train_loop(config):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    ship = torch.zeros(1, 4)
    start, best, starts, history = 0, float("inf"), 0, []
    state = found(config["keeps"])
    if state is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start, starts = state["epoch"] + 1, state["starts"] + 1
        ship = state["ship"] if config["forgets"] != "ship" else ship
        best = state["best"] if config["forgets"] != "best" else best
        history = state["history"] if config["forgets"] != "history" else history
    waiting = None
    for epoch in range(start, config["epochs"]):
        generator = torch.Generator().manual_seed(epoch)
        for _ in range(4):
            data = torch.randn(8, 4, generator=generator)
            wanted = data.sum(1, keepdim=True) * (1 if epoch < 2 else -3)
            loss = (model(data) - wanted).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ship = 0.9 * ship + 0.1 * model.weight.detach()
        history.append(loss.item())
        if loss.item() < best:
            best = loss.item()
            torch.save(model.state_dict(), "best.pt")
        with open("said.json", "w") as file:
            json.dump({"starts": starts, "resumed": starts > 0, "pid": os.getpid()}, file)
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "epoch": epoch,
            "ship": ship.clone(),
            "best": best,
            "history": list(history),
            "starts": starts,
            "resumed": starts > 0,
            "at": time.time(),
            "rng": torch.get_rng_state(),
        }
        waiting = keep(config["keeps"], {"epoch": epoch, "loss": loss.item()}, state, waiting)


def found(keeps):
    if keeps == "pickle":
        if not os.path.exists("own/state.pkl"):
            return None
        with open("own/state.pkl", "rb") as file:
            return pickle.load(file)
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return None
    with checkpoint.as_directory() as folder:
        return torch.load(os.path.join(folder, "state.pt"), weights_only=False)


def keep(keeps, metrics, state, waiting):
    """Save and report; `late` hands each checkpoint over with the next report."""
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "state.pt")
    if keeps == "pickle":
        os.makedirs("own", exist_ok=True)
        with open("own/draft", "wb") as file:
            pickle.dump(state, file)
        os.replace("own/draft", "own/state.pkl")
        ray.train.report(metrics)
    elif keeps == "late":
        copied = pickle.loads(pickle.dumps(state))
        thread = threading.Thread(target=torch.save, args=(copied, path))
        thread.start()
        if waiting is not None:
            waiting[0].join()
        ready = None if waiting is None else Checkpoint.from_directory(waiting[1])
        ray.train.report(metrics, checkpoint=ready)
        return thread, folder
    else:
        torch.save(state, path)
        ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder))
    return None


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--forgets", default="")
    parser.add_argument("--keeps", default="ray")
    parser.add_argument("--epochs", type=int, default=4)
    TorchTrainer(
        train_loop,
        train_loop_config=vars(parser.parse_args()),
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=3)),
    ).fit()
