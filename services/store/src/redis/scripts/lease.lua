#!lua
-- Takes or extends a lease; 0 while another owner holds it.
--
-- KEYS: 1 lease · ARGV: 1 owner, 2 time to live in ms
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
