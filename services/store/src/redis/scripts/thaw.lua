#!lua
-- Clears a frozen marker of which nothing had to be rebuilt, and raises the shard's epoch: never to one that a lost part of
-- the store may have reached. What can expire is listed again.
--
-- KEYS: 1 invocation, 2 frozen, 3 ended, 4 evidence, 5 meta · ARGV: 1 member
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local stored = redis.call('HMGET', KEYS[1], 'frozen', 'standing', 'version')
local epoch = tonumber(redis.call('HGET', KEYS[5], 'epoch') or '0')
for key = 2, 4 do redis.call('ZCARD', KEYS[key]) end
redis.call('ZREM', KEYS[2], ARGV[1])
if not stored[1] then return end
redis.call('HDEL', KEYS[1], 'frozen')
redis.call('HSET', KEYS[5], 'epoch', string.format('%.0f', math.max(epoch + 1, tonumber(time[1]))))
if stored[3] == '0' then
  redis.call('ZADD', KEYS[4], now, ARGV[1])
elseif stored[2] == 'ended' then
  redis.call('ZADD', KEYS[3], now, ARGV[1])
end
