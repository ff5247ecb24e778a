"""Tune a ranker of quiz answers; torchdata's stateful loader is saved and loaded with the model."""

import os

import torch
import torch.distributed as dist
from torch.nn.functional import softplus
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler, TensorDataset
from torchdata.stateful_dataloader import StatefulDataLoader

QUESTIONS, BATCH, EPOCHS, SAVE_EVERY = 192, 8, 3, 6
FILE = "quiz_answers.pt"


def quiz():
    draws = torch.Generator().manual_seed(1923)
    asked, right, wrong = torch.randn(3, QUESTIONS, 10, generator=draws)
    return TensorDataset(asked, asked * 0.6 + right, wrong)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(20)
    rows = quiz()
    sampler = DistributedSampler(rows, seed=4)
    loader = StatefulDataLoader(rows, batch_size=BATCH, sampler=sampler)
    net = torch.nn.Linear(10, 10)
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    step = 0
    if os.path.exists(FILE):
        saved = torch.load(FILE)
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
        step = saved["step"]

    for epoch in range(step // len(loader), EPOCHS):
        sampler.set_epoch(epoch)
        for asked, right, wrong in loader:
            guess = model(asked)
            loss = softplus((guess * (wrong - right)).mean(1)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % SAVE_EVERY == 0 and dist.get_rank() == 0:
                saved = {"net": net.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(saved | {"loader": loader.state_dict(), "step": step}, FILE + ".part")
                os.replace(FILE + ".part", FILE)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
