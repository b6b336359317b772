#!lua flags=no-writes
-- The outbox entries that were stored at least so long ago by the server's clock, oldest first.
--
-- KEYS: 1 outbox · ARGV: 1 age in ms, 2 limit
local time = redis.call('TIME')
local until_ms = time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[1]
if until_ms < 0 then return {} end
return redis.call('XRANGE', KEYS[1], '-', string.format('%.0f', until_ms), 'COUNT', ARGV[2])
