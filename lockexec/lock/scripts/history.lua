-- Reads the history of a lock, and who holds it now.
--
-- KEYS  1 lock   2 holder records   3 history
-- reply {records of those who hold it, entries of the stream from the newest on}
local present = {}
for _, token in ipairs(redis.call('HKEYS', KEYS[2])) do
  if owned(KEYS[1], token) == 1 then
    table.insert(present, redis.call('HGET', KEYS[2], token))
  end
end
return {present, redis.call('XREVRANGE', KEYS[3], '+', '-')}
