"""Strokes of a quill as sequences; hand and ink are two files, each replaced as a whole."""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F

FOLDER, PAGES, STROKES = "desk", 8, 7


def replaced(value, path):
    torch.save(value, path + "~")
    os.replace(path + "~", path)


def page_of(number, rank):
    draw = torch.Generator().manual_seed(1000 * number + rank)
    curves = torch.randn(STROKES, 10, 6, generator=draw).cumsum(1)
    return curves[..., :5], curves[..., 1:]


def hand_and_ink():
    hand = torch.nn.LSTM(5, 8, proj_size=5, batch_first=True)
    ink = torch.optim.AdamW(hand.parameters(), lr=0.015, weight_decay=0.1)
    return hand, ink


def write():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(19)
    hand, ink = hand_and_ink()
    begun = 0
    os.makedirs(FOLDER, exist_ok=True)
    if os.path.exists(f"{FOLDER}/hand.pt") and os.path.exists(f"{FOLDER}/ink.pt"):
        kept = torch.load(f"{FOLDER}/hand.pt")
        hand.load_state_dict(kept["hand"])
        begun = kept["pages"]
        ink.load_state_dict(torch.load(f"{FOLDER}/ink.pt"))
    for page in range(begun, PAGES):
        for drawn, due in zip(*page_of(page, rank)):
            ink.zero_grad()
            F.l1_loss(hand(drawn.unsqueeze(0))[0].squeeze(0), due).backward()
            for weight in hand.parameters():
                dist.all_reduce(weight.grad)
                weight.grad /= ranks
            ink.step()
        if rank == 0:
            replaced({"hand": hand.state_dict(), "pages": page + 1}, f"{FOLDER}/hand.pt")
            replaced(ink.state_dict(), f"{FOLDER}/ink.pt")
        dist.barrier()


dist.init_process_group("gloo")
write()
dist.destroy_process_group()
