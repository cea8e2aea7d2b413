-- Tells how long success markers are still remembered.
--
-- KEYS  the markers
-- reply {ms, ...}  as PTTL gives it
local left = {}
for i, key in ipairs(KEYS) do
  left[i] = redis.call('PTTL', key)
end
return left
