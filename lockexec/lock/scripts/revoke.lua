-- Takes a lock from its holders without giving it to anybody: what stands for
-- each is replaced by a tombstone that ends when its lease would have. At their
-- next renewal they find that they have lost it and stop their commands, which
-- are dead before the lease ends; only after that the lock is free. A release
-- by a holder, who has nothing to protect any more, ends its tombstone earlier.
-- A lock that is only kept, whose command has ended, is deleted.
--
-- KEYS  see line.lua
-- ARGV  1 a new token
--       2 1 deletes the lock at once, also one without a time to live
--       3... the holders to take it from, as inspect.lua names them
-- reply {revoked, others, ms}  so many of these have lost it; so many hold it
--                              that were not named, or that can't be revoked,
--                              as they have no end; the last tombstone ends in ms
local token, at_once = ARGV[1], ARGV[2] == '1'
local named = {[token] = true}
for i = 3, #ARGV do
  named[ARGV[i]] = true
end

local kind, list = holdings(lock)
if not kind then
  return list
end
local refusal = kind == 0 and refused(lock, token)
if refusal then
  return refusal
end

local function delete(value)
  if kind == 1 then
    redis.call('DEL', lock)
  else
    redis.call('ZREM', lock, value)
  end
  redis.pcall('HDEL', holders, value)
end

local function bury(value, left)
  local tombstone = (#value <= 128 and value or token) .. revoked
  if kind == 1 then
    redis.call('SET', lock, tombstone, 'XX', 'KEEPTTL')
  else -- the set must not be empty in between: it would lose its time to live
    redis.call('ZADD', lock, now + left, tombstone)
    redis.call('ZREM', lock, value)
  end
  redis.pcall('HDEL', holders, value)
end

local gone, others, last = 0, 0, 0
for _, holding in ipairs(list) do
  local value, left = holding[1], holding[2]
  local buried = stem(value, revoked)
  local meant = named[name_of(value)] or buried and named[name_of(buried)]
  if meant and (at_once or stem(value, kept)) then
    delete(value)
    gone = gone + 1
  elseif buried then
    last = math.max(last, left)
    gone = gone + (meant and 1 or 0)
  elseif meant and left >= 0 then
    bury(value, left)
    last = math.max(last, left)
    gone = gone + 1
  else
    others = others + 1
  end
end
pcall(function() serve(now_us) end)
return {gone, others, last}
