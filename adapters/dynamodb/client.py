"""A lock that is an item in DynamoDB, by the recipe of Amazon's lock client: owner, lease, and a record version number (RVN).

A waiter writes no time into the table and reads none: it takes over an item whose RVN has been the same for its lease, by the waiter's
own monotonic clock. `--heartbeat`: a holder writes a new RVN every third of the lease; `--wall-clock`: the item has the time of day at
which it expires, and waiters compare it with theirs.
"""

import sys
import threading
import time
import uuid

import boto3
import fencepost
from botocore.config import Config
from botocore.exceptions import ClientError

HEARTBEAT = "--heartbeat" in sys.argv
making = threading.Lock()


class DynamoDb:
    clients = []
    # Of each lock the RVN that was found, and since when: what one process has found counts for all of this program.
    found = {}

    def __init__(self, env):
        self.env, self.owners, self.over = env, {}, {}
        with making:
            if not self.clients:
                config = Config(retries={"total_max_attempts": 1}, connect_timeout=1, read_timeout=1, max_pool_connections=100)
                access = {"aws_access_key_id": "any", "aws_secret_access_key": "any", "region_name": "us-east-1"}
                url = f"http://{env.servers[0].address}"
                # The client of a resource takes Python's own values; only clients may be shared by threads.
                self.clients.append(boto3.resource("dynamodb", endpoint_url=url, config=config, **access).meta.client)
        self.dynamodb = self.clients[0]
        self.dynamodb.describe_table(TableName="locks")

    def write(self, request, condition, values=None, **parameters):
        """Whether the condition held, and the request was carried out."""
        # `key` and `owner` are words of DynamoDB's own.
        names = {name: name[1:] for name in ("#key", "#owner") if name in condition}
        more = {"ExpressionAttributeNames": names} if names else {}
        if values:
            more["ExpressionAttributeValues"] = values
        try:
            request(TableName="locks", ConditionExpression=condition, **more, **parameters)
            return True
        except ClientError as error:
            if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
                return False
            raise

    def attempt(self, key, ttl):
        # DynamoDB has no fractions in Python's own numbers.
        item = {"key": key, "owner": str(uuid.uuid4()), "rvn": str(uuid.uuid4()), "lease_ms": int(ttl * 1000)}
        if "--wall-clock" in sys.argv:
            now = int(time.time() * 1000)
            item["expires_ms"] = now + item["lease_ms"]
            condition = "attribute_not_exists(#key) OR expires_ms < :now"
            granted = self.write(self.dynamodb.put_item, condition, {":now": now}, Item=item)
        else:
            granted = self.put(key, item)
        if granted:
            self.owners[key] = item["owner"]
        return granted

    def put(self, key, item):
        there = self.dynamodb.get_item(TableName="locks", Key={"key": key}, ConsistentRead=True).get("Item")
        if there is None:
            return self.write(self.dynamodb.put_item, "attribute_not_exists(#key)", Item=item)
        rvn, since = self.found.get(key, (None, 0.0))
        if rvn != there["rvn"]:
            self.found[key] = there["rvn"], time.monotonic()
        elif time.monotonic() - since > int(there["lease_ms"]) / 1000:
            return self.write(self.dynamodb.put_item, "rvn = :rvn", {":rvn": rvn}, Item=item)
        return False

    def acquire(self, key, ttl, timeout):
        if not self.env.poll(lambda: self.attempt(key, ttl), timeout, rest=(0.02, 0.1)):
            raise fencepost.NotAcquired("there was an item each time")
        if HEARTBEAT:
            over = self.over[key] = threading.Event()
            threading.Thread(target=self.beat, args=(key, self.owners[key], ttl / 3, over), daemon=True).start()
        return True

    def beat(self, key, owner, period, over):
        while not over.wait(period):
            begun = time.monotonic()
            values = {":owner": owner, ":rvn": str(uuid.uuid4())}
            change = {"Key": {"key": key}, "UpdateExpression": "SET rvn = :rvn"}
            try:
                held = self.write(self.dynamodb.update_item, "#owner = :owner", values, **change)
            except Exception as error:  # the lease ends by the holder's clock if no later heartbeat comes through
                print(f"no heartbeat: {error}")
                continue
            if over.is_set():
                return
            if not held:
                return self.env.lost(key, "the item is no longer this owner's")
            self.env.renewed(key, age=time.monotonic() - begun)

    def release(self, key):
        if HEARTBEAT:
            self.over.pop(key).set()
        owner = {":owner": self.owners.pop(key)}
        return self.write(self.dynamodb.delete_item, "#owner = :owner", owner, Key={"key": key})

    def close(self):
        for over in self.over.values():
            over.set()


fencepost.run(DynamoDb, can=["extend", "lost"] if HEARTBEAT else [])
