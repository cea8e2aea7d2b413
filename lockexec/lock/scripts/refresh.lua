-- Keeps the holder record of a long run from expiring. Records that are to live
-- longer, for the history, are left alone.
--
-- KEYS  1 holder records
-- ARGV  1 token   2 ttl, ms
-- reply 1 refreshed, 0 there is no record of this token
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
if redis.call('PTTL', KEYS[1]) >= tonumber(ARGV[2]) then
  return 1
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
