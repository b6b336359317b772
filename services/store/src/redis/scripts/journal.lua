#!lua
-- Writes a journal field unless it is there, and answers what is there. Behind a tombstone nothing is written.
--
-- KEYS: 1 invocation, 2 journal · ARGV: 1 field, 2 value
if redis.call('HEXISTS', KEYS[1], 'tombstone') == 1 then return ARGV[2] end
if redis.call('HSETNX', KEYS[2], ARGV[1], ARGV[2]) == 1 then return ARGV[2] end
return redis.call('HGET', KEYS[2], ARGV[1])
