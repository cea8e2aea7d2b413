-- Shared by acquire.lua and release.lua: the line of those who wait, and how
-- the lock passes to them. These scripts have their first KEYS in common:
--
-- KEYS  1 lock   2 fence counter   3 holder records   4 queue   5 waiters
--       6 the list to wake us by
--       then, where there is one: success marker, history
-- ARGV  1 token; the last is how many runs the history keeps
--
-- The queue has token -> number of arrival. The waiters have token ->
-- "SEEN WATCHES CAPACITY TTL RECORD": when it last asked (ms), whether it asks
-- every second (1), or every ten (0) but was told to (2), what it wants and for
-- how long, and its holder record; and 'last' -> when any of them asked, and
-- 'back' -> when they did after a time in which none could. All times are this
-- server's.
--
-- A capacity is how many may hold the lock: 1 is one alone, 0 is any number of
-- those who share, N is at most N of those who say the same N.
local lock, fence_counter, holders, queue, waiters, wake_list =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local success, history
for i = 7, #KEYS do
  if string.find(KEYS[i], 'redlockrun:history:', 1, true) == 1 then
    history = KEYS[i]
  else
    success = KEYS[i]
  end
end
local wake_prefix = string.sub(wake_list, 1, #wake_list - #ARGV[1]) -- before the token

local grant_ttl = 2000      -- to take what was granted, ms: then it passes on
local watchers = 4          -- so many at the head of the line ask every second
local silent_watcher = 5000 -- not heard of for so long, one is gone, ms
local silent_waiter = 25000
local outage = 2500         -- without a question of anybody in line, ms
local line_ttl = 120000     -- of the line, beyond the last word of anybody in it
local wake_ttl = 30000
local spent_ttl = 120000    -- for a try that is on its way to arrive
local hour = 3600000
local history_ttl = 90 * 24 * hour

-- note_run adds a run to the history: the record of its holder, how it ended
-- ('' where nobody knows), and how the lock stood then, as owned says it. By
-- pcall, as nothing may fail for it.
local function note_run(record, ending, state)
  redis.pcall('XADD', history, 'MAXLEN', ARGV[#ARGV], '*', 'holder', record, 'end', ending, 'lock', state)
  redis.pcall('PEXPIRE', history, history_ttl)
end

-- note_dead adds those who have lost their lock without a word: their records
-- are about to be deleted.
local function note_dead(tokens)
  for _, token in ipairs(history and tokens or {}) do
    local record = redis.pcall('HGET', holders, token)
    if type(record) == 'string' and not string.find(token, ':kept', 1, true) then
      note_run(record, '', 0)
    end
  end
end

-- occupancy says what the lock is: 'free', 'one' holder (whose token is the
-- second result), 'many' (their number is), or an error (the second result).
-- It takes out those whose lease has ended. A sorted set without a time to live,
-- or with members that are no tokens, is somebody's data.
local function occupancy(now)
  local value, failure = value_of(lock)
  if value then
    return 'one', value
  elseif not failure then
    return 'free', 0
  elseif not string.find(failure.err, 'WRONGTYPE', 1, true) then
    return 'error', failure
  end
  local first = redis.pcall('ZRANGE', lock, 0, 0)
  if first.err or redis.call('PTTL', lock) < 0
    or not string.match(first[1], '^%x+%-%x+%-%x+%-%x+%-%x+') then
    return 'error', failure -- no lock at all
  end
  local ended = redis.call('ZRANGEBYSCORE', lock, '-inf', now)
  note_dead(ended)
  for _, token in ipairs(ended) do
    redis.call('ZREM', lock, token)
    redis.call('HDEL', holders, token)
  end
  local n = redis.call('ZCARD', lock)
  if n == 0 then
    return 'free', 0
  end
  return 'many', n
end

-- capacity_of returns the capacity that a holder record tells, or false.
local function capacity_of(record)
  local n = type(record) == 'string' and string.match(record, '"slots":(%d+)')
  return n and tonumber(n)
end

-- present_record returns the record of a holder of the lock, or ''.
local function present_record(kind, token)
  if kind == 'many' then
    token = redis.call('ZRANGE', lock, 0, 0)[1]
  end
  local record = redis.pcall('HGET', holders, token)
  return type(record) == 'string' and record or ''
end

-- has_room says whether one more with that capacity can hold the lock.
local function has_room(now, capacity)
  local kind, n = occupancy(now)
  if kind == 'free' then
    return true
  elseif kind ~= 'many' or capacity == 1 then
    return false
  end
  -- Of a holder without a record nobody knows what it shares with whom.
  local theirs = capacity_of(present_record(kind))
  return theirs == capacity and (capacity == 0 or n < capacity)
end

-- hold makes token a holder for ttl ms, and returns its fencing number. The
-- lock comes last: when a write before it fails, there is no lock.
local function hold(now_us, token, capacity, ttl, lease, record)
  local now = math.floor(now_us / 1000)
  -- The fence is not below this server's clock, so that it rises also when the
  -- counter expired or a failover lost it. %.0f, as tostring keeps 14 digits
  -- only. A counter that makes no sense counts as none.
  local last = tonumber(value_of(fence_counter) or 0) or 0
  if not (last >= 0 and last < 2 ^ 53 - 1) then
    last = 0
  end
  local fence = string.format('%.0f', math.max(last + 1, now_us))
  redis.call('SET', fence_counter, fence, 'PX', fence_ttl(lease))
  if capacity == 1 or redis.call('EXISTS', lock) == 0 then
    note_dead(history and redis.pcall('HKEYS', holders))
    redis.call('DEL', holders) -- of those who died
  end
  redis.call('HSET', holders, token,
    string.sub(record, 1, -2) .. string.format(',"since":%.0f,"fence":%s}', now, fence))
  redis.call('PEXPIRE', holders, history and history_ttl or math.max(4 * hour, 10 * lease))
  if capacity == 1 then
    redis.call('SET', lock, token, 'NX', 'PX', ttl)
  else
    redis.call('ZADD', lock, now + ttl, token)
    set_lease(lock, token, ttl, true)
  end
  return fence
end

local function leave_line(token)
  redis.call('HDEL', waiters, token)
  if redis.call('ZREM', queue, token) == 1 and redis.call('EXISTS', queue) == 0 then
    redis.call('DEL', waiters)
  end
end

-- waiter returns the entry of one who waits, or nil.
local function waiter(token)
  local entry = redis.call('HGET', waiters, token)
  if not entry then
    return nil
  end
  local seen, watches, capacity, ttl, record = string.match(entry, '^(%d+) (%d) (%d+) (%d+) (.*)$')
  return {
    seen = tonumber(seen), watches = tonumber(watches), capacity = tonumber(capacity), ttl = tonumber(ttl),
    record = record,
  }
end

local function note_waiter(token, w)
  redis.call('HSET', waiters, token, string.format('%.0f %d %.0f %.0f ', w.seen, w.watches, w.capacity, w.ttl) .. w.record)
  redis.call('PEXPIRE', waiters, line_ttl)
  redis.call('PEXPIRE', queue, line_ttl)
end

-- note_question notes that somebody in line has asked. When nobody could for a
-- while, nobody is to blame for it: this server was away, or the way to it.
local function note_question(now)
  local last = tonumber(redis.call('HGET', waiters, 'last') or now)
  if now - last > outage then
    redis.call('HSET', waiters, 'back', string.format('%.0f', now))
  end
  redis.call('HSET', waiters, 'last', string.format('%.0f', now))
end

-- wake tells a waiter to 'ask' now, or to 'watch': to ask every second. By
-- pcall, as the list is not among the KEYS: it is a hint only, and without it
-- the waiter asks a little later.
local function wake(token, word)
  if type(redis.pcall('RPUSH', wake_prefix .. token, word)) == 'number' then
    redis.pcall('PEXPIRE', wake_prefix .. token, wake_ttl)
  end
end

-- head returns the first in line who still waits. Those before who were not
-- heard of for too long are taken out, all in one go: they queue anew, at the
-- end, if they come back.
local function head(now)
  while true do
    local token = redis.call('ZRANGE', queue, 0, 0)[1]
    if not token then
      return nil
    end
    local w = waiter(token)
    local back = tonumber(redis.call('HGET', waiters, 'back') or 0)
    if w and now - math.max(w.seen, back) <= (w.watches == 1 and silent_watcher or silent_waiter) then
      return token, w
    end
    leave_line(token)
  end
end

-- serve grants the lock to the first in line, and to those behind for whom
-- there is room as well. A grant is the lock itself, for a short time: who was
-- granted it and died, or can't be reached, loses it to the next.
--
-- Those who come to the front of the line are told to watch from now on: so a
-- lock that becomes free without a release is found by the next one within a
-- second, also if some of them are dead.
local function serve(now_us)
  local now = math.floor(now_us / 1000)
  while true do
    local token, w = head(now)
    if not token or not has_room(now, w.capacity) then
      break
    end
    leave_line(token)
    hold(now_us, token, w.capacity, grant_ttl, w.ttl, w.record)
    wake(token, 'ask')
  end
  for _, token in ipairs(redis.call('ZRANGE', queue, 0, watchers - 1)) do
    local w = waiter(token)
    if w and w.watches == 0 then
      w.watches = 2
      note_waiter(token, w)
      wake(token, 'watch')
    end
  end
end
