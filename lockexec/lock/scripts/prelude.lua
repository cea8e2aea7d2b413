-- Shared by all scripts; put before each of them.

-- value_of returns the string at key, or false when the key does not exist.
-- Its second result is the error reply of a key that is no string, or that
-- could not be read.
local function value_of(key)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then
    return nil, value
  end
  return value
end

-- owned says how the lock stands to token: 1 it is ours, 0 there is no lock,
-- -1 it is another's (also where something that is no lock took its name).
-- Its second result is the error of a key that could not be read.
local function owned(lock, token)
  local value, failure = value_of(lock)
  if failure then
    if string.find(failure.err, 'WRONGTYPE', 1, true) then
      return -1
    end
    return nil, failure
  end
  if not value then
    return 0
  end
  if value == token then
    return 1
  end
  return -1
end
