"""moto's emulators of S3 and DynamoDB, with a bucket and a table for locks: `python server.py ADDRESS PORT`.

moto looks at the condition of a request and then carries it out, in a thread for each request and without a lock: of 120
objects that twelve clients created at once, each by `If-None-Match: *`, four were created twice. Amazon's services do both in
one step, and so this server carries out one request after the other.
"""

import io
import logging
import sys
import threading

from moto.core import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import make_server

moto = DomainDispatcherApplication(create_backend_app)
turn = threading.Lock()


def one_at_a_time(environ, start_response):
    # The body is read first: a client that sends only half of it keeps no other one waiting.
    environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
    with turn:
        return list(moto(environ, start_response))


def make_table(name, *keys):
    dynamodb_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].create_table(
        name,
        schema=[{"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, ["HASH", "RANGE"])],
        attr=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
        throughput={"ReadCapacityUnits": 1000, "WriteCapacityUnits": 1000},
        **dict.fromkeys(["indexes", "global_indexes", "streams", "sse_specification", "tags", "warm_throughput"]),
        **{"billing_mode": "PROVISIONED", "deletion_protection_enabled": False},
    )


# At each start, since moto keeps everything in memory: a server that was killed comes back empty.
s3_backends[DEFAULT_ACCOUNT_ID]["aws"].create_bucket("locks", "us-east-1")
make_table("locks", "key")
make_table("DynamoDBLockTable", "lock_key", "sort_key")
logging.getLogger("werkzeug").setLevel(logging.ERROR)
make_server(sys.argv[1], int(sys.argv[2]), one_at_a_time, threaded=True).serve_forever()
