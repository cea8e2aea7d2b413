-- Starts the lease anew, if the lock is still ours. A lock that is gone is
-- never made again: another may have held it meanwhile.
--
-- KEYS  1 lock
-- ARGV  1 token   2 ttl, ms
-- reply 1 renewed, 0 no lock, -1 another's
local state, failure = owned(KEYS[1], ARGV[1])
if failure then
  return failure
end
if state == 1 then
  set_lease(KEYS[1], ARGV[1], tonumber(ARGV[2]))
  return 1
end
return refused(KEYS[1], ARGV[1]) or state
