-- The end of a conversation whose time to live is over.

-- Returns the server's time in milliseconds.
local function milliseconds()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end

local function demand_forget(keys)
  demand('TIME')
  demand('UNLINK', unpack(keys))
end

-- Removes the keys, which have all got this time of expiry, if it is over. Returns true if it is.
--
-- The time can be over before the last key gets it. Redis 7.0 then removes this key at once, but keeps those that got
-- the time before until the end of the millisecond. Without some of its keys, the conversation would be damaged.
-- Servers whose time does not pass within a script never get here after such a write.
local function forget_if_over(expires, keys)
  local is_over = milliseconds() >= tonumber(expires)
  if is_over then
    redis.call('UNLINK', unpack(keys))
  end
  return is_over
end
