#!lua
-- Raises the shard's epoch if another server answers than the one that answered last: after a restart or a failover it
-- may have lost commits. The server's run ID tells. Replies with 1 if it raised the epoch.
--
-- KEYS: 1 meta
local server = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local known = redis.call('HMGET', KEYS[1], 'server', 'epoch')
if known[1] == server then return 0 end
redis.call('HSET', KEYS[1], 'server', server)
if not known[1] then return 0 end
local epoch = math.max(tonumber(known[2] or '0') + 1, tonumber(redis.call('TIME')[1]))
redis.call('HSET', KEYS[1], 'epoch', string.format('%.0f', epoch))
return 1
