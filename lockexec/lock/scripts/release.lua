-- Gives the lock back, if it is still ours, and passes it on to those who wait
-- in the same moment: there is none at which it is free for somebody who just
-- came. Leaves the line, if we are in it: a grant that came at the last moment
-- is passed on, too. A lock that was revoked (revoke.lua) is ours to give back:
-- nobody had it since, and what ran under it has ended.
--
-- KEYS  see line.lua
-- ARGV  1 token
--       2 keep the lock for so long, ms, before others may have it; 0 does not
--       3 what the success marker is to hold, or '' for none
--       4 ttl of the marker, ms
--       5 1 if a try with this token may still be on its way, else 0: it is to
--         find the token spent
--       6 what the history is to have of the end, or '' for nothing
--       7 our holder record for it, should there be none here any more, or ''
--       8 how many runs the history keeps, or 0
-- reply 1 released, 0 no lock, -1 another's
local token, keep = ARGV[1], tonumber(ARGV[2])
if ARGV[5] == '1' then
  -- Where there is no memory for the mark, there is none for that try's lock.
  local marked = redis.pcall('SET', wake_list, 'spent', 'PX', spent_ttl)
  if marked.err and not string.find(marked.err, 'OOM', 1, true) then
    return marked
  end
end
local state, failure, many = owned(lock, token)
if failure then
  return failure
end
local record = redis.pcall('HGET', holders, token)
if type(record) ~= 'string' then
  record = ARGV[7]
end
local refusal = state ~= 1 and refused(lock, token)
if refusal then
  return refusal
end
local ours = token
if state == -1 then
  local revoked, _, of_many = owned(lock, token .. ':revoked')
  if revoked == 1 then
    state, ours, many, keep = 1, token .. ':revoked', of_many, 0
  end
end
if state == 1 then
  if ARGV[3] ~= '' then
    redis.call('SET', success, ARGV[3], 'PX', ARGV[4])
  end
  if keep > 0 then
    -- In another name: a renewal that comes late, or from who has the token,
    -- must not set another end.
    local kept = token .. ':kept'
    if record ~= '' then
      redis.pcall('HSET', holders, kept, record)
    end
    if many then
      redis.call('ZREM', lock, token)
      local now = math.floor(now_micros() / 1000)
      redis.call('ZADD', lock, now + keep, kept)
      set_lease(lock, kept, keep, true)
    else
      redis.call('SET', lock, kept, 'XX', 'PX', keep)
    end
  else
    drop(lock, ours, many)
  end
end
-- By pcall: what stays of us is matched by its token when read, or falls
-- silent, and has a TTL; it must not turn a release that was done into an
-- error. The same holds for the line, which is served by whoever asks next.
redis.pcall('HDEL', holders, token)
if history and ARGV[6] ~= '' and record ~= '' then
  note_run(record, ARGV[6], state)
end
pcall(function()
  leave_line(token)
  serve(now_micros())
end)
return state
