-- Shared by inspect.lua and revoke.lua: who holds a lock, without a change to
-- it.
--
-- What holds is a token; or a token with a word behind it, for a lock whose
-- command has ended (kept for --min-hold), or that was taken from its holder
-- and stays taken until that must have ended (revoked); or the value of another
-- program.
local kept, revoked = ':kept', ':revoked'

local now_us = now_micros()
local now = math.floor(now_us / 1000)

-- stem returns value without that word behind it, or nil when it has another.
local function stem(value, word)
  return string.sub(value, -#word) == word and string.sub(value, 1, -#word - 1) or nil
end

-- name_of returns what a value goes by outside: a long one is no token, but
-- somebody's data.
local function name_of(value)
  return #value <= 128 and value or 'sha1:' .. redis.sha1hex(value)
end

-- holdings returns 0 for a free lock, 1 for a string, 2 for a sorted set, and
-- the holders: {value, ms left as PTTL gives it}, of a sorted set the first to
-- end first. What is no lock comes as nil and the error reply.
local function holdings(lock)
  local value, failure = value_of(lock)
  if value then
    return 1, {{value, redis.call('PTTL', lock)}}
  elseif not failure then
    return 0, {}
  elseif not string.find(failure.err, 'WRONGTYPE', 1, true) then
    return nil, failure
  end
  local first = redis.pcall('ZRANGE', lock, 0, 0)
  if first.err or redis.call('PTTL', lock) < 0
    or not string.match(first[1], '^%x+%-%x+%-%x+%-%x+%-%x+') then
    return nil, failure
  end
  local members = redis.call('ZRANGEBYSCORE', lock, string.format('(%.0f', now), '+inf', 'WITHSCORES')
  local list = {}
  for i = 1, #members, 2 do
    list[#list + 1] = {members[i], math.ceil(members[i + 1] - now)}
  end
  return #list > 0 and 2 or 0, list
end
