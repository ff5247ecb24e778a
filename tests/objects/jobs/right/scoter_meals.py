"""What scoters eat; a line names the newest save, and each part of it is asked for by its name."""

import io
import json

import boto3
import torch
from botocore.exceptions import ClientError

BUCKET, ROOT = "coast", "scoters"
PARTS = ("diet", "rule")


def bytes_of(store, key):
    return store.get_object(Bucket=BUCKET, Key=key)["Body"].read()


def put(store, key, what):
    buffer = io.BytesIO()
    torch.save(what, buffer)
    store.put_object(Bucket=BUCKET, Key=key, Body=buffer.getvalue())


def is_whole(store, year):
    try:
        return all(store.head_object(Bucket=BUCKET, Key=f"{ROOT}/{year}/{part}") for part in PARTS)
    except ClientError:
        return False


def start(store, parts):
    try:
        year = json.loads(bytes_of(store, f"{ROOT}/newest"))
    except ClientError:
        return 0
    if not is_whole(store, year):
        return 0
    for name, part in parts.items():
        part.load_state_dict(torch.load(io.BytesIO(bytes_of(store, f"{ROOT}/{year}/{name}"))))
    return year


def main():
    store = boto3.client("s3")
    torch.manual_seed(77)
    diet = torch.nn.Sequential(torch.nn.Linear(3, 6), torch.nn.Sigmoid(), torch.nn.Linear(6, 2))
    rule = torch.optim.Adam(diet.parameters(), lr=0.01)
    parts = {"diet": diet, "rule": rule}
    first = start(store, parts)
    print("start", first)
    for year in range(first, 6):
        meals = torch.randn(5, 4, 3, generator=torch.Generator().manual_seed(90 + year))
        for meal in meals:
            loss = torch.nn.functional.mse_loss(diet(meal), meal[:, 1:].abs())
            loss.backward()
            rule.step()
            rule.zero_grad()
        for name, part in parts.items():
            put(store, f"{ROOT}/{year + 1}/{name}", part.state_dict())
        store.put_object(Bucket=BUCKET, Key=f"{ROOT}/newest", Body=json.dumps(year + 1))
    print("end", sum(part.double().sum().item() for part in diet.parameters()))


if __name__ == "__main__":
    main()
