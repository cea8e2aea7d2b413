"""A lock of redis-py, told what to do by lines on stdin:

    acquire NAME TTL_MS  -> the token, or "busy"
    extend TTL_MS        -> "extended", or "lost" when it was not ours any more
    release              -> "released", or "lost" when it was not ours any more

Usage: python3 lock.py HOST:PORT
"""

import sys

import redis

host, port = sys.argv[1].rsplit(":", 1)
client = redis.Redis(host=host, port=int(port))
lock = None

for line in sys.stdin:
    word, *args = line.split()
    if word == "acquire":
        name, ttl_ms = args
        wanted = client.lock(name, timeout=int(ttl_ms) / 1000, blocking=False)
        if wanted.acquire():
            lock = wanted
            print(lock.local.token.decode(), flush=True)
        else:
            print("busy", flush=True)
    else:
        try:
            if word == "extend":
                lock.extend(int(args[0]) / 1000, replace_ttl=True)
                print("extended", flush=True)
            else:
                lock.release()
                print("released", flush=True)
        except (redis.exceptions.LockNotOwnedError, redis.exceptions.ResponseError):
            print("lost", flush=True)
