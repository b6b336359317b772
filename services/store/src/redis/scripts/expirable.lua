#!lua flags=no-writes
-- The members that have been in a list for at least so long by the server's clock, oldest first.
--
-- KEYS: 1 ended, evidence or frozen · ARGV: 1 age in ms, 2 limit
local time = redis.call('TIME')
local until_ms = time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[1]
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', until_ms), 'LIMIT', 0, ARGV[2])
