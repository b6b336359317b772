#!lua flags=no-writes
-- The time of the server that holds the key, in ms. The key is named so that a cluster knows whom to ask.
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
