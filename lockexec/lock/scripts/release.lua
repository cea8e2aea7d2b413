-- Deletes the lock, if it is still ours, and our holder record in any case.
--
-- KEYS  1 lock   2 holder records
-- ARGV  1 token
-- reply 1 released, 0 no lock, -1 another's
local state, failure = owned(KEYS[1], ARGV[1])
if failure then
  return failure
end
if state == 1 then
  redis.call('DEL', KEYS[1])
end
-- By pcall: a record that stays is matched by its token when read, and has a
-- TTL; it must not turn a release that was done into an error.
redis.pcall('HDEL', KEYS[2], ARGV[1])
return state
