"""Mixed precision on the CPU with a GradScaler whose first steps overflow; arrays in one .npz file."""

import os
import tempfile

import numpy as np
import ray.train
import torch
from ray.train.torch import TorchTrainer

STEPS = 40


def flatten(prefix, value, into):
    if isinstance(value, dict):
        for k, v in value.items():
            flatten(f"{prefix}/{k}", v, into)
    elif torch.is_tensor(value):
        into[prefix] = value.detach().numpy()
    return into


def pack(net, opt, scaler, step):
    arrays = flatten("net", net.state_dict(), {})
    flatten("opt", opt.state_dict()["state"], arrays)
    s = scaler.state_dict()
    arrays["scaler"] = np.array([s["scale"], s["_growth_tracker"]])
    arrays["step"] = np.array(step)
    return arrays


def unpack(arrays, net, opt, scaler):
    net.load_state_dict({k: torch.tensor(arrays[f"net/{k}"]) for k in net.state_dict()})
    per_parameter = {}
    for key in arrays.files:
        if key.startswith("opt/"):
            _, number, name = key.split("/")
            per_parameter.setdefault(int(number), {})[name] = torch.tensor(arrays[key])
    opt.load_state_dict({"state": per_parameter, "param_groups": opt.state_dict()["param_groups"]})
    scale, tracker = arrays["scaler"]
    scaler.load_state_dict({**scaler.state_dict(), "scale": scale, "_growth_tracker": int(tracker)})
    return int(arrays["step"])


def worker(config):
    torch.manual_seed(77)
    net = torch.nn.Sequential(
        torch.nn.Conv1d(2, 6, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(48, 2),
    )
    opt = torch.optim.AdamW(net.parameters(), lr=6e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=6, growth_factor=4.0)
    step = 0
    if ray.train.get_checkpoint():
        with ray.train.get_checkpoint().as_directory() as d, np.load(f"{d}/all.npz") as arrays:
            step = unpack(arrays, net, opt, scaler)

    recent = []
    while step < STEPS:
        rng = np.random.default_rng(step)
        label = rng.integers(0, 2, 20)
        wave = np.sin(np.arange(8) * (1 + label[:, None]))
        x = np.stack([wave, wave**2], 1) + rng.normal(size=(20, 2, 8)) * 0.7
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = net(torch.tensor(x, dtype=torch.float32))
            loss = torch.nn.functional.cross_entropy(out, torch.tensor(label)) * 4
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_value_(net.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        recent.append(loss.item())
        step += 1
        if step % 5 == 0:
            with tempfile.TemporaryDirectory() as d:
                np.savez(os.path.join(d, "all.npz"), **pack(net, opt, scaler, step))
                ray.train.report(
                    {"loss": sum(recent) / len(recent), "scale": scaler.get_scale()},
                    checkpoint=ray.train.Checkpoint.from_directory(d),
                )
            recent.clear()


if __name__ == "__main__":
    TorchTrainer(
        worker,
        train_loop_config={},
        run_config=ray.train.RunConfig(
            failure_config=ray.train.FailureConfig(max_failures=3),
            checkpoint_config=ray.train.CheckpointConfig(num_to_keep=3),
        ),
    ).fit()
