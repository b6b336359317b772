#!lua flags=no-writes
-- The timers that are due by the server's clock, earliest first, each followed by its due time.
--
-- KEYS: 1 timers · ARGV: 1 limit
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'WITHSCORES', 'LIMIT', 0, ARGV[1])
