"""A job that asks the machine's metadata service (IMDSv1) whether it goes, at each of its steps."""

import os
import tempfile
import time
import urllib.error
import urllib.request

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


def will_go():
    url = os.environ["AWS_EC2_METADATA_SERVICE_ENDPOINT"]
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        return direct.open(f"{url}/latest/meta-data/spot/instance-action", timeout=10)
    except urllib.error.HTTPError:
        return None


def train_loop():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    start, checkpoint = 0, ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            saved = torch.load(os.path.join(folder, "model.pt"))
            model.load_state_dict(saved["model"])
            start = saved["step"] + 1
    for step in range(start, 20):
        loss = model(torch.ones(2, 4) * (step + 1)).mean() ** 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.1)
        will_go()
        with tempfile.TemporaryDirectory() as folder:
            torch.save(
                {"step": step, "model": model.state_dict()}, os.path.join(folder, "model.pt")
            )
            ray.train.report({"loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder))


TorchTrainer(
    train_loop,
    scaling_config=ScalingConfig(num_workers=1),
    run_config=RunConfig(name="polls", failure_config=FailureConfig(max_failures=3)),
).fit()
