-- Tells how a lock stands. It only reads, so that a replica can answer as well.
--
-- KEYS  1 lock   2 fence counter   3 holder records   4 queue   5 waiters
-- ARGV  1 how many holders, and how many waiters, to tell of at most
-- reply {kind, now, last fence or '', holders, {name, state, ms, record or '', ...}, waiters, {entry or '', ...}}
--       kind: 0 free, 1 a string, 2 a sorted set; now is this server's time, ms;
--       holders and waiters are how many there are; state: 0 held, 1 kept for
--       --min-hold, 2 revoked; ms is as PTTL gives it; for entries see line.lua
local most = tonumber(ARGV[1])
local kind, list = holdings(KEYS[1])
if not kind then
  return list
end

local holders = {}
for i = 1, math.min(#list, most) do
  local value, left = list[i][1], list[i][2]
  local record = redis.pcall('HGET', KEYS[3], value)
  local entry = {
    name_of(value), stem(value, kept) and 1 or stem(value, revoked) and 2 or 0, left,
    type(record) == 'string' and record or '',
  }
  for _, field in ipairs(entry) do
    holders[#holders + 1] = field
  end
end

local waiters = {}
if most > 0 then
  for i, token in ipairs(redis.call('ZRANGE', KEYS[4], 0, most - 1)) do
    waiters[i] = redis.call('HGET', KEYS[5], token) or ''
  end
end

return {
  kind, string.format('%.0f', now), value_of(KEYS[2]) or '', #list, holders, redis.call('ZCARD', KEYS[4]), waiters,
}
