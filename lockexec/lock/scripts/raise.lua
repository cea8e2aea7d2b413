-- Makes the fence of a holder known to a server that has given it a lower one:
-- the next one that it gives is higher.
--
-- KEYS  1 lock   2 fence counter   3 holder records
-- ARGV  1 token   2 fence   3 ttl of the lock, ms
-- reply 1 done, 0 no lock, -1 another's
local state, failure = owned(KEYS[1], ARGV[1])
if failure or state ~= 1 then
  return failure or state
end
if tonumber(ARGV[2]) > (tonumber(value_of(KEYS[2]) or 0) or 0) then
  redis.call('SET', KEYS[2], ARGV[2], 'PX', fence_ttl(tonumber(ARGV[3])))
end
local record = redis.call('HGET', KEYS[3], ARGV[1])
if record then
  redis.call('HSET', KEYS[3], ARGV[1], (string.gsub(record, '"fence":%d+}$', '"fence":' .. ARGV[2] .. '}')))
end
return 1
