#!lua flags=allow-oom
-- Forgets a tombstone or a stub, and all that is left beside it, once it has been kept for long enough.
--
-- KEYS: 1 invocation, 2 ledger, 3 journal, 4 members, 5 evidence, 6 meta
-- ARGV: 1 member, 2 time to keep in ms, 3 field of the tenant's stub count
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local since = redis.call('ZSCORE', KEYS[5], ARGV[1])
local stored = redis.call('HMGET', KEYS[1], 'tombstone', 'frozen')
local stubs = tonumber(redis.call('HGET', KEYS[6], ARGV[3]) or '0')
redis.call('ZCARD', KEYS[4])
if not since or now - since < tonumber(ARGV[2]) or stored[2] then return 0 end
if not stored[1] then
  redis.call('ZREM', KEYS[4], ARGV[1])
  if stubs > 1 then redis.call('HINCRBY', KEYS[6], ARGV[3], -1) else redis.call('HDEL', KEYS[6], ARGV[3]) end
end
redis.call('ZREM', KEYS[5], ARGV[1])
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
return 1
