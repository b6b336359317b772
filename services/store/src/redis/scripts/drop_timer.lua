#!lua
-- Removes a timer if it still has that due time.
--
-- KEYS: 1 timers · ARGV: 1 member, 2 due
local due = redis.call('ZSCORE', KEYS[1], ARGV[1])
if due and tonumber(due) == tonumber(ARGV[2]) then redis.call('ZREM', KEYS[1], ARGV[1]) end
