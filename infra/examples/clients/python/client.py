"""Asks an agent for something and waits for what came of it: produce a request, consume the terminal event."""

import json
import time
import uuid

from confluent_kafka import Consumer, Producer

BROKERS = "127.0.0.1:29092"

# The same ID with the same fields is the same task, however often it is sent: after a crash, send it again.
invocation_id = str(uuid.uuid4())
request = {
    "tenant": "demo",
    "actor": "ada",
    "task_type": "refund",
    "agent": "refund-desk",
    "goal": "May customer c-1001 have a refund?",
    "requested_at": int(time.time() * 1000),
}

producer = Producer({"bootstrap.servers": BROKERS, "acks": "all", "enable.idempotence": True})
producer.produce("turnwright.invocations.v1", key=invocation_id, value=json.dumps(request))
if producer.flush(30):
    raise SystemExit("the request was not acknowledged: send it again, with the same ID")

# A group of your own; read committed offsets only after you have acted on what you read.
consumer = Consumer({
    "bootstrap.servers": BROKERS,
    "group.id": "my-service",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
})
consumer.subscribe(["turnwright.terminals.v1"])

seen = set()  # in a service: where you keep your results, in the same transaction
give_up = time.monotonic() + 60
while time.monotonic() < give_up:
    message = consumer.poll(1.0)
    if message is None or message.error():
        continue
    event_id = dict(message.headers())["ce_id"].decode()
    if event_id in seen:  # publishing may repeat
        continue
    seen.add(event_id)
    ended = json.loads(message.value())
    if ended["invocation_id"] == invocation_id and not ended["resumable"]:
        print(ended["reason"], ended["answer"], "unresolved effects:", ended["effects_unresolved"])
        break
else:
    raise SystemExit("no terminal event within a minute")
consumer.close()
