"""Train a small classifier on spirals in one process; each save is an object of its own in a bucket.

python spirals_bucket.py --epochs 5
"""

import argparse
import io
import os

import boto3
import torch
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError
from torch import nn

BUCKET, ROOT = "chaos-test", "spirals"
IN_PARTS = TransferConfig(multipart_threshold=1)


def spirals(epoch, count=128):
    """Return the points and labels of an epoch."""
    generator = torch.Generator().manual_seed(epoch)
    labels = torch.arange(count) % 2
    radius = torch.rand(count, generator=generator)
    angle = 6.0 * radius + labels * torch.pi
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1), labels


def listed(store):
    found = store.list_objects_v2(Bucket=BUCKET, Prefix=f"{ROOT}/").get("Contents", [])
    return sorted(one["Key"] for one in found)


def load(store, key):
    return torch.load(io.BytesIO(store.get_object(Bucket=BUCKET, Key=key)["Body"].read()))


def save(store, state, args):
    """Put a state; return the number under which it is there."""
    number = state["epoch"]
    buffer = io.BytesIO()
    torch.save(state, buffer)
    if args.room_first:
        for key in listed(store):
            store.delete_object(Bucket=BUCKET, Key=key)
    where = {"Bucket": BUCKET, "Key": f"{ROOT}/{number:03d}.pt"}
    if args.in_parts:
        buffer.seek(0)
        store.upload_fileobj(buffer, **where, Config=IN_PARTS)
        return number
    try:
        store.put_object(**where, Body=buffer.getvalue(), IfNoneMatch="*")
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] != 412:
            print("not saved:", error)
        elif args.count_on:
            return save(store, {**state, "epoch": number + 1}, args)
    return number


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--in-parts", action="store_true", help="multipart uploads")
    parser.add_argument("--room-first", action="store_true", help="remove the save before first")
    parser.add_argument("--count-on", action="store_true", help="take the next number that is free")
    parser.add_argument("--must-be-all", action="store_true", help="begin anew if one is missing")
    args = parser.parse_args()

    store = boto3.client("s3", endpoint_url=os.environ.get("AWS_ENDPOINT_URL"))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    keys, epoch = listed(store), 0
    is_newest_there = True
    if args.must_be_all:
        following = f"{ROOT}/{len(keys) + 1:03d}.pt"
        try:
            store.head_object(Bucket=BUCKET, Key=following)
            is_newest_there = False
        except ClientError:
            pass
    if keys and is_newest_there:
        state = load(store, keys[-1])
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        epoch = state["epoch"]
        print(f"resuming at epoch {epoch}")
    while epoch < args.epochs:
        points, labels = spirals(epoch)
        for some, theirs in zip(points.split(32), labels.split(32)):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(some), theirs).backward()
            optimizer.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        epoch = save(store, {**state, "epoch": epoch + 1}, args)


if __name__ == "__main__":
    main()
