-- Starts the lease anew, if the lock is still ours. A lock that is gone is
-- never made again: another may have held it meanwhile.
--
-- KEYS  1 lock
-- ARGV  1 token   2 ttl, ms
-- reply 1 renewed, 0 no lock, -1 another's, -2 it was revoked: see revoke.lua
local state, failure, many = owned(KEYS[1], ARGV[1])
if failure then
  return failure
end
if state == 1 then
  set_lease(KEYS[1], ARGV[1], tonumber(ARGV[2]), many)
  return 1
end
local refusal = refused(KEYS[1], ARGV[1])
if not refusal and state == -1 and owned(KEYS[1], ARGV[1] .. ':revoked') == 1 then
  return -2
end
return refusal or state
