-- Shared by all scripts; put before each of them.

-- named returns an error that names the command which the user may not run.
-- Redis 7.0 does not say; where the error ends the script, it gives the line.
local function named(failure, command)
  if string.find(failure.err, "can't run this command", 1, true) then
    return {err = 'NOPERM the right +' .. command .. ' is missing'}
  end
  return failure
end

-- value_of returns the string at key, or false when the key does not exist.
-- Its second result is the error reply of a key that is no string, or that
-- could not be read.
local function value_of(key)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then
    return nil, named(value, 'get')
  end
  return value
end

local function now_micros()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- lease_end returns when token's hold on a lock of many holders ends, ms, or
-- false when it has none, or when the lock is something else.
local function lease_end(lock, token)
  local score = redis.pcall('ZSCORE', lock, token)
  return type(score) == 'string' and tonumber(score)
end

-- owned says how the lock stands to token: 1 it is ours, 0 there is no lock,
-- -1 it is another's (also where something that is no lock took its name).
-- Its second result is the error of a key that could not be read, its third
-- says whether it is a lock of many, when it is ours.
--
-- A lock of one holder is a string, the token. A lock of many is a sorted set:
-- token -> end of its lease by this server's clock, ms.
local function owned(lock, token)
  local value, failure = value_of(lock)
  if failure and string.find(failure.err, 'WRONGTYPE', 1, true) then
    local ends = lease_end(lock, token)
    if not ends then
      return -1
    end
    return ends > now_micros() / 1000 and 1 or 0, nil, true
  elseif failure then
    return nil, failure
  end
  if not value then
    return 0
  end
  if value == token then
    return 1
  end
  return -1
end

-- refused returns the error of a server whose word on a lock that is not ours
-- proves nothing: a replica, whose data may be old, or a master that was cut
-- off. It answers reads, so that it is asked to write, what changes nothing.
local function refused(lock, token)
  local reply = redis.pcall('ZREM', lock, token)
  local failure = type(reply) == 'table' and reply.err
  for _, word in ipairs({'READONLY', 'MASTERDOWN', 'NOREPLICAS', 'NOPERM', "can't run this command", 'ACL failure'}) do
    if failure and string.find(failure, word, 1, true) then
      return named(reply, 'zrem')
    end
  end
end

-- drop takes the lock from token, which owns it, with many others or alone.
local function drop(lock, token, many)
  if many then
    redis.call('ZREM', lock, token)
  else
    redis.call('DEL', lock)
  end
end

-- fence_ttl returns for how long the fence counter of a lock with that ttl is
-- kept, ms: longer than any plausible step back of this server's clock.
local function fence_ttl(ttl)
  return math.max(3600000, 10 * ttl)
end

-- set_lease has token's hold on the lock, which it owns, with many others or
-- alone, end in ttl ms.
local function set_lease(lock, token, ttl, many)
  if not many then
    redis.call('PEXPIRE', lock, ttl)
    return
  end
  local now = math.floor(now_micros() / 1000)
  redis.call('ZADD', lock, 'XX', now + ttl, token)
  -- The key lives as long as the last of them.
  local last = redis.call('ZRANGE', lock, -1, -1, 'WITHSCORES')
  redis.call('PEXPIRE', lock, math.max(last[2] - now, 1))
end
