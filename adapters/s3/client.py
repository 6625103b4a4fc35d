"""A lock that is an object in S3: created on the condition that there is none, deleted on the condition that it is still the same.

`--expiring`: an object that has not changed for its lease is overwritten; `--no-condition`: looks whether there is an object, then
creates one.
"""

import sys
import threading
import uuid
from time import monotonic

import boto3
import fencepost
from botocore.config import Config
from botocore.exceptions import ClientError

making = threading.Lock()


class S3:
    clients = []
    # Of each lock the version that was found, and since when: what one process has found counts for all of this program.
    found = {}

    def __init__(self, env):
        self.env, self.etags = env, {}
        with making:
            if not self.clients:
                # No retries: the answer to the second request would be about the object that the first one created.
                config = Config(retries={"total_max_attempts": 1}, connect_timeout=1, read_timeout=1, max_pool_connections=100)
                access = {"aws_access_key_id": "any", "aws_secret_access_key": "any", "region_name": "us-east-1"}
                self.clients.append(boto3.client("s3", endpoint_url=f"http://{env.servers[0].address}", config=config, **access))
        self.s3 = self.clients[0]
        self.s3.head_bucket(Bucket="locks")

    def ask(self, request, key, **parameters):
        """The answer; None if the condition did not hold, or if there is no object."""
        try:
            return request(Bucket="locks", Key=key, **parameters)
        except ClientError as error:
            # 409: another request to the same object came in between.
            if error.response["ResponseMetadata"]["HTTPStatusCode"] in (404, 409, 412):
                return None
            raise

    def attempt(self, key, ttl):
        body = f"{uuid.uuid4()} {ttl}".encode()  # its own in each attempt, and so is the ETag
        if "--no-condition" in sys.argv:
            put = None if self.ask(self.s3.head_object, key) else self.ask(self.s3.put_object, key, Body=body)
        else:
            put = self.ask(self.s3.put_object, key, Body=body, IfNoneMatch="*")
            if put is None and "--expiring" in sys.argv:
                put = self.take_over(key, body)
        if put is not None:
            self.etags[key] = put["ETag"]
        return put is not None

    def take_over(self, key, body):
        """Overwrites the object if it has been the same for its lease, by this program's monotonic clock."""
        there = self.ask(self.s3.get_object, key)
        if there is None:
            return None
        lease = float(there["Body"].read().split()[1])
        etag, since = self.found.get(key, (None, 0.0))
        if etag != there["ETag"]:
            self.found[key] = there["ETag"], monotonic()
        elif monotonic() - since > lease:
            return self.ask(self.s3.put_object, key, Body=body, IfMatch=etag)
        return None

    def acquire(self, key, ttl, timeout):
        if self.env.poll(lambda: self.attempt(key, ttl), timeout, rest=(0.02, 0.1)):
            return True
        raise fencepost.NotAcquired("there was an object each time")

    def release(self, key):
        return self.ask(self.s3.delete_object, key, IfMatch=self.etags.pop(key)) is not None


fencepost.run(S3)
