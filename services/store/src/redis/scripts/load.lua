#!lua flags=no-writes
-- Reads an invocation at one moment: a snapshot from before a commit is never paired with entries from after it.
--
-- KEYS: 1 invocation, 2 events, 3 ledger, 4 meta, 5 journal
-- ARGV: 1 index of the event whose hash is wanted or '', 2 index of the first event that is wanted whole, up to that one,
--       or '', 3 journal field or '', 4 'all' or 'keys', then the wanted ledger keys
-- Reply: now, epoch, 1 if the shard is fenced (see fence.lua), fields of the invocation, hash or nil, flat list of ledger keys and entries, journal value or nil,
--        events.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local fields = redis.call('HMGET', KEYS[1], 'version', 'head', 'bytes', 'frozen', 'tombstone', 'request', 'summary')
local hash = false
if ARGV[1] ~= '' then
  local event = redis.call('LINDEX', KEYS[2], ARGV[1])
  hash = event and string.sub(event, 1, 32)
end
local entries = {}
if ARGV[4] == 'all' then
  entries = redis.call('HGETALL', KEYS[3])
else
  for i = 5, #ARGV do
    local entry = redis.call('HGET', KEYS[3], ARGV[i])
    if entry then
      entries[#entries + 1] = ARGV[i]
      entries[#entries + 1] = entry
    end
  end
end
local answered = ARGV[3] ~= '' and redis.call('HGET', KEYS[5], ARGV[3])
local events = {}
if ARGV[2] ~= '' then events = redis.call('LRANGE', KEYS[2], ARGV[2], ARGV[1]) end
local known = redis.call('HMGET', KEYS[4], 'server', 'epoch')
local server = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local fenced = known[1] and known[1] ~= server and 1 or 0
return {now, known[2] or '0', fenced, fields, hash, entries, answered, events}
