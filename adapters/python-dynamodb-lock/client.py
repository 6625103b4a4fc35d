"""python_dynamodb_lock's lock, a lock client for each process: an item in DynamoDB, which threads of the library renew and watch."""

import threading
from datetime import timedelta

import boto3
import fencepost
from botocore.config import Config
from python_dynamodb_lock.python_dynamodb_lock import DynamoDBLock, DynamoDBLockClient, DynamoDBLockError

making = threading.Lock()


class PythonDynamoDbLock:
    def __init__(self, env):
        self.env, self.locks = env, {}
        config = Config(retries={"total_max_attempts": 1}, connect_timeout=1, read_timeout=1)
        access = {"aws_access_key_id": "any", "aws_secret_access_key": "any", "region_name": "us-east-1"}
        with making:
            dynamodb = boto3.resource("dynamodb", endpoint_url=f"http://{env.servers[0].address}", config=config, **access)
        dynamodb.Table("DynamoDBLockTable").load()
        # A new acquire does not know how long an earlier one has waited: only one that outwaits a lease gets the lock of a client that
        # is gone. So the lease is half a TTL, which is the time-out of an acquire; the rest has the proportions of the defaults.
        lease = env.ttl / 2
        self.shortest_wait = lease * 7 / 6  # the library's default: lease_duration + heartbeat_period
        self.client = DynamoDBLockClient(
            dynamodb,
            lease_duration=timedelta(seconds=lease),
            heartbeat_period=timedelta(seconds=lease / 6),
            safe_period=timedelta(seconds=lease * 2 / 3),
        )
        self.close = self.client.close

    def acquire(self, key, ttl, timeout):
        try:
            lock = self.client.acquire_lock(
                key,
                retry_period=timedelta(milliseconds=50),
                retry_timeout=timedelta(seconds=max(timeout * 0.9, self.shortest_wait)),
                app_callback=lambda code, lock: self.env.lost(key, code),
            )
        except DynamoDBLockError as error:
            if error.code == DynamoDBLockError.ACQUIRE_TIMEOUT:
                return False
            raise
        self.locks[key] = lock
        return True

    def holds(self, key):
        return self.locks[key].status == DynamoDBLock.LOCKED

    def release(self, key):
        lock = self.locks.pop(key)
        try:
            lock.release(best_effort=False)
        except DynamoDBLockError as error:
            if error.code in (DynamoDBLockError.LOCK_STOLEN, DynamoDBLockError.LOCK_NOT_OWNED):
                raise fencepost.NotHeld(error.code) from error
            raise
        return lock.status == DynamoDBLock.RELEASED  # a lock that it knows as lost it leaves alone


fencepost.run(PythonDynamoDbLock, can=["lost"])
