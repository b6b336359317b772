#!lua
-- Whether the shard is fenced: another server answers than the one that answered last, and after a restart or a failover
-- that one may have lost commits. The server's run ID tells. Lifting the fence raises the epoch past every one that a lost
-- part may have reached. Replies with 1 if the shard was fenced.
--
-- KEYS: 1 meta · ARGV: 1 '1' to lift the fence
local server = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local known = redis.call('HMGET', KEYS[1], 'server', 'epoch')
if not known[1] or known[1] == server then return 0 end
if ARGV[1] == '1' then
  local epoch = math.max(tonumber(known[2] or '0') + 1, tonumber(redis.call('TIME')[1]))
  redis.call('HSET', KEYS[1], 'server', server, 'epoch', string.format('%.0f', epoch))
end
return 1
