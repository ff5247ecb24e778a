"""The bucket of these jobs, in a store on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3

from tests.s3 import S3, s3_server

BUCKET = "coast"


@contextmanager
def coast() -> Iterator[S3]:
    """Keep a store with the bucket for a while."""
    with s3_server() as s3:
        client_of(s3).create_bucket(Bucket=BUCKET)
        yield s3


def client_of(s3: S3) -> Any:
    """Return a client of a store."""
    env = s3.env
    return boto3.client(
        "s3",
        endpoint_url=env["AWS_ENDPOINT_URL"],
        region_name=env["AWS_REGION"],
        aws_access_key_id=env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
    )


def keys(s3: S3) -> list[str]:
    """Return the objects of the bucket, and the uploads that were begun and not finished."""
    client = client_of(s3)
    objects = client.list_objects_v2(Bucket=BUCKET).get("Contents", ())
    uploads = client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", ())
    return [one["Key"] for one in (*objects, *uploads)]


def empty(s3: S3) -> None:
    """Remove all of that."""
    client = client_of(s3)
    for one in client.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
        client.delete_object(Bucket=BUCKET, Key=one["Key"])
    for one in client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", ()):
        client.abort_multipart_upload(Bucket=BUCKET, Key=one["Key"], UploadId=one["UploadId"])
