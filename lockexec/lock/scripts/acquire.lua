-- Takes the lock for one exclusive holder, with its fencing number and its
-- holder record, or says who has it. The same token again is a success: the
-- reply to the first try was lost.
--
-- KEYS  1 lock   2 fence counter   3 holder records
-- ARGV  1 token
--       2 ttl of the lock, ms
--       3 holder record: a JSON object with at least one field
--       4 ttl of the fence counter, ms
--       5 ttl of the holder records, ms
-- reply {1, fence}                            acquired
--       {0, pttl, holder record or '', now}   held; pttl as PTTL gives it, ms;
--                                             now is this server's time, ms
local lock, fence_counter, holders = KEYS[1], KEYS[2], KEYS[3]
local token, ttl = ARGV[1], ARGV[2]

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)

local present, failure = value_of(lock)
if failure then
  return failure
end

if present and present ~= token then
  local record = redis.pcall('HGET', holders, present)
  if type(record) ~= 'string' then
    record = '' -- there is none, or something else took its name
  end
  return {0, redis.call('PTTL', lock), record, string.format('%.0f', now_ms)}
end

if present then
  redis.call('PEXPIRE', lock, ttl)
  local record = redis.pcall('HGET', holders, token)
  local fence = type(record) == 'string' and string.match(record, '"fence":(%d+)}$')
  if fence then
    return {1, fence}
  end
end

-- Not below this server's clock, so that it rises also when the counter
-- expired or a failover lost it. %.0f, as tostring keeps 14 digits only.
-- A counter that makes no sense counts as none.
local last = tonumber(value_of(fence_counter) or 0) or 0
if not (last >= 0 and last < 2 ^ 53 - 1) then
  last = 0
end
local fence = string.format('%.0f', math.max(last + 1, now_us))
local record = string.sub(ARGV[3], 1, -2)
  .. string.format(',"since":%.0f,"fence":%s}', now_ms, fence)

-- The lock comes last: when a write before it fails, there is no lock.
redis.call('SET', fence_counter, fence, 'PX', ARGV[4])
redis.call('DEL', holders)
redis.call('HSET', holders, token, record)
redis.call('PEXPIRE', holders, ARGV[5])
if not present then
  redis.call('SET', lock, token, 'NX', 'PX', ttl)
end
return {1, fence}
