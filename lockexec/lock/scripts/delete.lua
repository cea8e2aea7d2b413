-- Deletes the lock, if it is still ours, and names no other key: what can be
-- done while the slot of a cluster is on its way to another node.
--
-- KEYS  1 lock
-- ARGV  1 token
-- reply 1 deleted, 0 no lock, -1 another's
local lock, token = KEYS[1], ARGV[1]
local state, failure, many = owned(lock, token)
if failure then
  return failure
end
if state == 1 then
  drop(lock, token, many)
end
return state
