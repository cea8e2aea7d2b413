-- Takes the lock, with a fencing number and a holder record, or says who has
-- it, or waits in line for it. Whoever waits asks again and again by this
-- script: that keeps its place, confirms what was granted meanwhile, and finds
-- a lock that nobody has released. The same token again is a success, too: the
-- reply to the first try was lost.
--
-- KEYS  see line.lua
-- ARGV  1 token
--       2 ttl of the lock, ms
--       3 holder record: a JSON object with at least one field
--       4 capacity
--       5 1 if the caller waits, else 0
--       6 for how long this server must have been up, ms, or 0
--       7 how many runs the history keeps, or 0
-- reply {1, fence}                            acquired
--       {0, ms, holder record or '', now, ahead, watch, token or ''}
--                                             held, until in ms as PTTL gives it
--                                             at the latest; now is this server's
--                                             time, ms; so many are in line
--                                             before the caller, or in all when it
--                                             does not wait; watch is 1 for one
--                                             who is to ask every second
--       {2}                                   done: the success marker is there
--       {3, capacity}                         the lock is used with another capacity
--       {4}                                   too late: the token was released
--       {5, ms}                               this server is up for too short
-- too_young returns the reply of a server that was up for less than it must. It
-- counts in whole seconds, which begin at any time within one.
local function too_young(least)
  if least == 0 then
    return nil
  end
  local info = redis.pcall('INFO', 'server')
  if type(info) == 'table' and info.err then
    return named(info, 'info')
  end
  local up = tonumber(string.match(info, 'uptime_in_seconds:(%d+)') or 0)
  local left = least + 1000 - up * 1000
  return left > 0 and {5, left} or nil
end

local token, ttl, record, capacity = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local waits = ARGV[5] == '1'

local now_us = now_micros()
local now = math.floor(now_us / 1000)

-- A try that was on its way for so long that its sender has given up.
if value_of(wake_list) then
  return {4}
end

local state, failure, many = owned(lock, token)
if failure then
  return failure
end

local young = state ~= 1 and too_young(tonumber(ARGV[6]))
if young then
  return young
end

if success and redis.call('EXISTS', success) == 1 then
  leave_line(token)
  if state == 1 then
    drop(lock, token, many)
    redis.call('HDEL', holders, token)
  end
  serve(now_us)
  return {2}
end

-- confirm has the caller, who has the lock, keep it for all of its ttl.
local function confirm()
  set_lease(lock, token, ttl, many)
  leave_line(token)
  local fence = string.match(redis.call('HGET', holders, token) or '', '"fence":(%d+)}$')
  if not fence then -- the record was lost
    drop(lock, token, many)
    fence = hold(now_us, token, capacity, ttl, ttl, record)
  end
  return {1, fence}
end

if state == 1 then
  return confirm()
end

-- keep_place tells that the caller is there, and returns how many are before.
local function keep_place()
  local ahead = redis.call('ZRANK', queue, token)
  note_waiter(token, {
    seen = now, watches = ahead < watchers and 1 or 0, capacity = capacity, ttl = ttl, record = record,
  })
  return ahead
end

local in_line = redis.call('ZSCORE', queue, token)
if in_line then -- before anybody is found to be silent
  note_question(now)
  keep_place()
end

local kind, holder = occupancy(now)
if kind == 'error' then
  return holder
end
local present = kind == 'free' and '' or present_record(kind, holder)
local theirs = capacity_of(present)
if not theirs then
  local _, first = head(now)
  theirs = first and first.capacity
end
if theirs and theirs ~= capacity and (theirs > 1 or capacity > 1) then
  leave_line(token)
  return {3, theirs}
end

-- Nobody passes a line of others, and nobody needs to queue where there is
-- none.
if not head(now) and has_room(now, capacity) then
  return {1, hold(now_us, token, capacity, ttl, ttl, record)}
end

if waits and not in_line then
  local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
  redis.call('ZADD', queue, (last or 0) + 1, token)
  redis.call('PEXPIRE', queue, line_ttl)
  note_question(now)
  keep_place()
end
serve(now_us)
state, failure, many = owned(lock, token)
if state == 1 then -- served, with the others or alone
  return confirm()
end

local refusal = not waits and refused(lock, token) -- who waits has written
if refusal then
  return refusal
end
kind, holder = occupancy(now)
local left = redis.call('PTTL', lock)
if kind == 'many' then
  left = math.max(math.floor(redis.call('ZRANGE', lock, 0, 0, 'WITHSCORES')[2] - now), 0)
end
local ahead = waits and keep_place() or redis.call('ZCARD', queue)
return {0, left, present_record(kind, holder), string.format('%.0f', now), ahead, ahead < watchers and 1 or 0,
  kind == 'one' and holder or kind == 'many' and redis.call('ZRANGE', lock, 0, 0)[1] or ''}
