"""A mutex in Redis or Valkey."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from weftjobs_controllers._extras import required
from weftjobs_controllers.errors import InvalidArgumentError, MutexError, check_text
from weftjobs_controllers.mutexes._blocking import LONGEST_ANSWER, BlockingMutex, StoreTime
from weftjobs_controllers.mutexes._record import MEMORY

_LONGEST_WAIT = 2.0
"""How many seconds the server has to answer, a retry included twice."""

_KEPT = 30 * 86_400_000
"""How many ms the server keeps a key that nobody has touched."""

_TIME = f"""
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local record = redis.call('HMGET', KEYS[1], 'nonce', 'token', 'expires', 'slot', 'touched')
local nonce, token, expires = record[1], tonumber(record[2] or 0), tonumber(record[3] or 0)
local function store(...)
    redis.call('HSET', KEYS[1], 'touched', now, ...)
    redis.call('PEXPIRE', KEYS[1], {_KEPT})
end
"""

_CLAIM = (
    _TIME
    + """
local slot, last, touched = tonumber(ARGV[3]), tonumber(record[4]), tonumber(record[5] or 0)
if nonce == ARGV[1] then
    store('expires', now + ARGV[2])
    return token
end
if expires > now then return nil end
local remembered = last and (last <= now or math.abs(now - touched) < tonumber(ARGV[4]))
if slot and remembered and slot <= last then return nil end
if now > tonumber(ARGV[5]) then return nil end
token = math.max(token + 1, now)
store('nonce', ARGV[1], 'token', token, 'expires', now + ARGV[2], 'slot', slot or last or '')
return token
"""
)

_RENEW = (
    _TIME
    + """
if nonce ~= ARGV[1] then return 0 end
store('expires', now + ARGV[2])
return 1
"""
)

_RELEASE = (
    _TIME
    + """
if nonce ~= ARGV[1] then return 0 end
store('nonce', '', 'expires', now + ARGV[2])
return 1
"""
)


class RedisMutex(BlockingMutex):
    """Locks in Redis or Valkey: instances on any number of machines.

        components={"mutex": RedisMutex("redis://cache.internal:6379/0"), ...}

    A server that fails over to a replica, or restarts without persistence, may forget a lock:
    then two instances can run a job at once. So can a holder that is paused for longer than
    its lease. A resource that matters checks `context.lease_token`.

    Args:
        url: Where the server is, as redis-py takes it: `redis://`, `rediss://`, `unix://`.
        lease: How long a lock is held unless it is renewed, at least 1 second: milliseconds,
            a `timedelta`, or text.
        prefix: What the names of all keys begin with.

    Raises:
        InvalidScheduleError: The lease is not a duration, or too short.
        MissingExtraError: redis-py is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        lease: int | float | timedelta | str = "30s",
        prefix: str = "weftjobs:",
    ) -> None:
        super().__init__(lease)
        check_text("url", url)
        self._redis = redis = required("redis", extra="redis")
        self._prefix = prefix
        wait = min(_LONGEST_WAIT / 2, self.lease / 6000)
        # Its own default retries ten times, for seconds.
        retry = required("redis.retry", extra="redis").Retry(
            required("redis.backoff", extra="redis").NoBackoff(), 1
        )
        try:
            self._client: Any = redis.Redis.from_url(url, retry=retry)
        except ValueError as error:
            fix = "Write redis://host:6379/0, rediss://… or unix://path."
            raise InvalidArgumentError(
                "url", url, f"is no URL of Redis: {error}", fix=fix
            ) from None
        # After the fact, because options in the URL would come before these.
        self._client.connection_pool.connection_kwargs |= {
            "socket_timeout": wait,
            "socket_connect_timeout": wait,
        }
        self._store_time = StoreTime(self._time)
        self._scripts = {
            source: self._client.register_script(source) for source in (_CLAIM, _RENEW, _RELEASE)
        }

    def __repr__(self) -> str:
        options = self._client.connection_pool.connection_kwargs
        place = options.get("path") or f"{options.get('host')}:{options.get('port')}"
        return f"RedisMutex at {place}"

    def _claim(self, key: str, nonce: str, lease: int, slot: int | None) -> int | None:
        named = "" if slot is None else slot
        latest = self._reported(key, self._store_time.now) + LONGEST_ANSWER
        answer = self._run(_CLAIM, key, nonce, lease, named, MEMORY, latest)
        return None if answer is None else int(answer)

    def _renew(self, key: str, nonce: str, lease: int) -> bool:
        return bool(self._run(_RENEW, key, nonce, lease))

    def _release(self, key: str, nonce: str, hold: int) -> bool:
        return bool(self._run(_RELEASE, key, nonce, hold))

    def _time(self) -> int:
        seconds, microseconds = self._client.time()
        return int(seconds) * 1000 + int(microseconds) // 1000

    def _run(self, source: str, key: str, *values: object) -> Any:
        script = self._scripts[source]
        return self._reported(key, lambda: script(keys=[self._prefix + key], args=values))

    def _reported(self, key: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (self._redis.RedisError, OSError, ValueError) as error:
            raise MutexError(repr(self), key, error) from error

    def _close(self) -> None:
        self._client.close()
