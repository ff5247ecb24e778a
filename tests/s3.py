"""A bucket that moto's server keeps, for tests and tools; it has a Python of its own."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PYTHON = Path(__file__).parents[1] / ".venv-s3/bin/python"
BUCKET = "chaos-test"
KEY = SECRET = "chaos"
REGION = "us-east-1"
WHY_NOT = "moto's server stands in for S3, and is not there: make s3"

# Runs there: prints its address, and ends with whoever started it.
_SERVE = f"""
import sys, boto3
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
boto3.client(
    "s3", endpoint_url=f"http://{{host}}:{{port}}", region_name="{REGION}",
    aws_access_key_id="{KEY}", aws_secret_access_key="{SECRET}",
).create_bucket(Bucket="{BUCKET}")
print(f"{{host}}:{{port}}", flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class S3:
    """A server that answers as S3 does at `address`, a host and a port, and has one bucket."""

    address: str

    @property
    def env(self) -> Mapping[str, str]:
        """What a process needs in its environment to take this for S3."""
        return {
            "AWS_ENDPOINT_URL": f"http://{self.address}",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def uri(self, folder: str) -> str:
        """Return a folder in the bucket as a URI that needs no environment."""
        options = f"endpoint_override={self.address}&scheme=http&region={REGION}"
        return f"s3://{KEY}:{SECRET}@{BUCKET}/{folder}?{options}"


def is_there() -> bool:
    """Return whether the server can be started."""
    return shutil.which(PYTHON) is not None


@contextmanager
def s3_server() -> Iterator[S3]:
    """Keep a server for a while."""
    with subprocess.Popen(
        [PYTHON, "-c", _SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            assert address, "moto's server ended at once"
            yield S3(address)
        finally:
            process.stdin.close()
            process.kill()
