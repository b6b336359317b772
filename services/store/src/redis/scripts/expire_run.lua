#!lua flags=allow-oom
-- Leaves a tombstone of an ended invocation, if it still stands as ended and has done so for long enough. Its version,
-- head, request digest and summary stay; its ledger is not touched.
--
-- KEYS: 1 invocation, 2 events, 3 journal, 4 members, 5 ended, 6 evidence · ARGV: 1 member, 2 time to keep in ms
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local since = redis.call('ZSCORE', KEYS[5], ARGV[1])
local stored = redis.call('HMGET', KEYS[1], 'standing', 'frozen')
redis.call('ZCARD', KEYS[4])
redis.call('ZCARD', KEYS[6])
if not since or now - since < tonumber(ARGV[2]) or stored[1] ~= 'ended' or stored[2] then return 0 end
redis.call('HSET', KEYS[1], 'tombstone', '1')
redis.call('HDEL', KEYS[1], 'bytes', 'standing')
redis.call('DEL', KEYS[2], KEYS[3])
redis.call('ZREM', KEYS[4], ARGV[1])
redis.call('ZREM', KEYS[5], ARGV[1])
redis.call('ZADD', KEYS[6], since, ARGV[1])
return 1
