#!lua
-- Commits one change of one invocation, or refuses it whole. A script is not rolled back, so everything is read and
-- checked before the first write; the reads also prove that every key has the type that the writes expect.
--
-- KEYS: 1 invocation, 2 events, 3 ledger, 4 outbox, 5 timers, 6 members, 7 ended, 8 evidence, 9 meta, 10 frozen
-- ARGV: 1 member, 2 expected version or '', 3 decided at, 4 greatest decision age, 5 version, 6 head, 7 snapshot,
--       8 standing, 9 summary, 10 request digest or '', 11 stub quota or '', 12 field of the tenant's stub count,
--       13-17 numbers of events, ledger entries, timers, outbox entries and acknowledged outbox IDs, 18 expected head or '',
--       19 '1' to thaw a frozen invocation or '', then these:
--       events; (key, flag and bytes); (member, due or ''); (event ID, bytes); IDs
-- Reply: 'done' and the outbox IDs, or 'fenced', 'conflict', 'frozen', 'quota', 'regress' and a key, 'gap'.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local now_text = string.format('%.0f', now)
local expected, version, standing, thaws = ARGV[2], ARGV[5], ARGV[8], ARGV[19] == '1'

local events = 19
local entries = events + ARGV[13]
local timers = entries + 2 * ARGV[14]
local outbox = timers + 2 * ARGV[15]
local acknowledged = outbox + 2 * ARGV[16]

local stored = redis.call('HMGET', KEYS[1], 'version', 'frozen', 'tombstone', 'standing', 'head')
local length = redis.call('LLEN', KEYS[2])
local settled = {}
for i = entries + 1, timers, 2 do
  local entry = redis.call('HGET', KEYS[3], ARGV[i])
  settled[i] = entry and string.sub(entry, 1, 1) == '1'
end
redis.call('HLEN', KEYS[3])
redis.call('XLEN', KEYS[4])
for key = 5, 8 do redis.call('ZCARD', KEYS[key]) end
redis.call('ZCARD', KEYS[10])
local epoch = tonumber(redis.call('HGET', KEYS[9], 'epoch') or '0')
local server = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local known = redis.call('HGET', KEYS[9], 'server')
local stubs = tonumber(redis.call('HGET', KEYS[9], ARGV[12]) or '0')

if known and known ~= server then return {'fenced'} end
if stored[3] then return {'conflict'} end
if stored[2] and not thaws then return {'frozen'} end
if (stored[1] or '') ~= expected or (stored[5] or '') ~= ARGV[18] or thaws and not stored[2] then return {'conflict'} end
if now - ARGV[3] > tonumber(ARGV[4]) then return {'conflict'} end
if ARGV[11] ~= '' and stubs >= tonumber(ARGV[11]) then return {'quota'} end
for i = entries + 1, timers, 2 do
  if settled[i] and string.sub(ARGV[i + 1], 1, 1) ~= '1' then return {'regress', ARGV[i]} end
end
if length ~= tonumber(expected ~= '' and expected or '0') then return {'gap'} end

redis.call('HSET', KEYS[1], 'version', version, 'head', ARGV[6], 'bytes', ARGV[7],
  'standing', standing, 'summary', ARGV[9])
if ARGV[10] ~= '' then redis.call('HSET', KEYS[1], 'request', ARGV[10]) end
for i = events + 1, entries do redis.call('RPUSH', KEYS[2], ARGV[i]) end
for i = entries + 1, timers, 2 do redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1]) end
for i = timers + 1, outbox, 2 do
  if ARGV[i + 1] == '' then
    redis.call('ZREM', KEYS[5], ARGV[i])
  else
    redis.call('ZADD', KEYS[5], ARGV[i + 1], ARGV[i])
  end
end

if expected == '' then redis.call('ZADD', KEYS[6], 0, ARGV[1]) end
if version == '0' then
  redis.call('ZADD', KEYS[8], now_text, ARGV[1])
  redis.call('HINCRBY', KEYS[9], ARGV[12], 1)
else
  if expected == '0' then
    redis.call('ZREM', KEYS[8], ARGV[1])
    if stubs > 1 then redis.call('HINCRBY', KEYS[9], ARGV[12], -1) else redis.call('HDEL', KEYS[9], ARGV[12]) end
  end
  if standing == 'ended' then
    redis.call('ZADD', KEYS[7], 'NX', now_text, ARGV[1])
  elseif stored[4] == 'ended' then
    redis.call('ZREM', KEYS[7], ARGV[1])
  end
end

if thaws then
  redis.call('HDEL', KEYS[1], 'frozen')
  redis.call('ZREM', KEYS[10], ARGV[1])
  redis.call('HSET', KEYS[9], 'epoch', string.format('%.0f', math.max(epoch + 1, math.floor(now / 1000))))
end

if not known then redis.call('HSET', KEYS[9], 'server', server) end

local reply = {'done'}
for i = outbox + 1, acknowledged, 2 do
  reply[#reply + 1] = redis.call('XADD', KEYS[4], '*', 'event', ARGV[i], 'bytes', ARGV[i + 1])
end
for i = acknowledged + 1, acknowledged + ARGV[17] do redis.call('XDEL', KEYS[4], ARGV[i]) end
return reply
