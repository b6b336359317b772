#!lua
-- Marks an invocation frozen unless it is, or unless only its tombstone is left. A frozen one is no longer up for
-- retention; the commit of its rebuild lists it again.
--
-- KEYS: 1 invocation, 2 ended, 3 evidence, 4 frozen · ARGV: 1 member, 2 basis
local time = redis.call('TIME')
local since = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
redis.call('ZCARD', KEYS[2])
redis.call('ZCARD', KEYS[3])
redis.call('ZCARD', KEYS[4])
if redis.call('HEXISTS', KEYS[1], 'tombstone') == 1 then return end
if redis.call('HSETNX', KEYS[1], 'frozen', ARGV[2] .. ':' .. since) == 1 then
  redis.call('ZREM', KEYS[2], ARGV[1])
  redis.call('ZREM', KEYS[3], ARGV[1])
  redis.call('ZADD', KEYS[4], since, ARGV[1])
end
