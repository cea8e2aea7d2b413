-- Sets the lock on a server that lacks it, for the holder who has it on most of
-- the others.
--
-- KEYS  1 lock   2 the list to wake us by
-- ARGV  1 token   2 ttl, ms
-- reply 1 it is ours, 0 too late: the token was released, -1 another's
if value_of(KEYS[2]) then
  return 0
end
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return 1
end
return (owned(KEYS[1], ARGV[1]))
