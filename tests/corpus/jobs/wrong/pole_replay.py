"""Q-learning with a replay buffer and a target network on a small pole-like control task."""

import argparse
import collections
import os
import random
import tempfile

import numpy as np
import ray.train
import torch
import torch.nn as nn
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

Transition = collections.namedtuple("Transition", "state action reward next_state done")


class Pole:
    """A pole that falls unless it is pushed; the push has noise."""

    def __init__(self, rng):
        self.rng = rng
        self.reset()

    def reset(self):
        self.state = self.rng.normal(scale=0.05, size=2)
        self.t = 0
        return self.state.astype(np.float32)

    def step(self, action):
        angle, speed = self.state
        push = (-1.0, 0.0, 1.0)[action] * 0.3 + self.rng.normal(scale=0.02)
        speed = speed + 0.1 * np.sin(angle) + 0.2 * push
        angle = angle + 0.2 * speed
        self.state = np.array([angle, speed])
        self.t += 1
        done = abs(angle) > 1.0 or self.t >= 30
        return self.state.astype(np.float32), 1.0 - abs(angle), done


class ReplayBuffer:
    def __init__(self, capacity):
        self.items = collections.deque(maxlen=capacity)

    def push(self, *transition):
        self.items.append(Transition(*transition))

    def sample(self, n, rng):
        picked = [self.items[i] for i in rng.integers(len(self.items), size=n)]
        columns = Transition(*(np.array(c) for c in zip(*picked)))
        return [torch.as_tensor(c) for c in columns]

    def __len__(self):
        return len(self.items)


def q_network():
    return nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 3))


def play_and_learn(config):
    torch.manual_seed(config["seed"])
    random.seed(config["seed"])
    rng = np.random.default_rng(config["seed"])
    env = Pole(rng)
    online, target = q_network(), q_network()
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.RMSprop(online.parameters(), lr=2e-3)
    buffer = ReplayBuffer(config["capacity"])
    episode = updates = 0

    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as path:
            saved = torch.load(os.path.join(path, "agent.pt"), weights_only=False)
        online.load_state_dict(saved["online"])
        target.load_state_dict(saved["target"])
        optimizer.load_state_dict(saved["optimizer"])
        rng.bit_generator.state = saved["rng"]
        episode, updates = saved["episode"], saved["updates"]

    while episode < config["episodes"]:
        epsilon = max(0.05, 0.9 * 0.8**episode)
        state, done, total, losses = env.reset(), False, 0.0, []
        while not done:
            if rng.random() < epsilon:
                action = int(rng.integers(3))
            else:
                with torch.no_grad():
                    action = int(online(torch.from_numpy(state)).argmax())
            next_state, reward, done = env.step(action)
            buffer.push(state, action, np.float32(reward), next_state, np.float32(done))
            state, total = next_state, total + reward
            if len(buffer) >= config["batch"] and env.t % 4 == 0:
                s, a, r, s2, d = buffer.sample(config["batch"], rng)
                with torch.no_grad():
                    wanted = r + 0.95 * (1 - d) * target(s2).max(1).values
                q = online(s).gather(1, a[:, None]).squeeze(1)
                loss = nn.functional.smooth_l1_loss(q, wanted)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                updates += 1
                if updates % 10 == 0:
                    target.load_state_dict(online.state_dict())
        episode += 1
        metrics = {"episode": episode, "return": total, "updates": updates}
        if losses:
            metrics["td_loss"] = float(np.mean(losses))
        if episode % 2:
            ray.train.report(metrics)
            continue
        with tempfile.TemporaryDirectory() as path:
            agent = {
                "online": online.state_dict(),
                "target": target.state_dict(),
                "optimizer": optimizer.state_dict(),
                "rng": rng.bit_generator.state,
                "episode": episode,
                "updates": updates,
            }
            torch.save(agent, os.path.join(path, "agent.pt"))
            ray.train.report(metrics, checkpoint=Checkpoint.from_directory(path))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--episodes", type=int, default=10)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--capacity", type=int, default=500)
    p.add_argument("--seed", type=int, default=4)
    config = vars(p.parse_args())
    TorchTrainer(
        play_and_learn,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="pole", failure_config=FailureConfig(max_failures=3)),
    ).fit()


if __name__ == "__main__":
    main()
