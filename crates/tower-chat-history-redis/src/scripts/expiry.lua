-- The end of a conversation whose time to live is over.

-- Returns the server's time in milliseconds.
local function milliseconds()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end

-- Demands the rights to `set_expiry`.
local function demand_expiry(keys, expires)
  for _, key in ipairs(keys) do
    if expires then
      demand('PEXPIREAT', key, expires)
    else
      demand('PERSIST', key)
    end
  end
  if expires then
    demand('TIME')
    demand('UNLINK', unpack(keys))
  end
end

-- Lets all keys expire at the same time, so that no key is missing before the others, or lets them never expire if
-- there is no time. Returns true if the time is over already. The keys are removed then.
--
-- The time can be over before the last key gets it. Redis 7.0 then removes this key at once, but keeps those that got
-- the time before until the end of the millisecond. Without some of its keys, the conversation would be damaged.
-- Servers whose time does not pass within a script never get here after such a write.
local function set_expiry(keys, expires)
  for _, key in ipairs(keys) do
    if expires then
      redis.call('PEXPIREAT', key, expires)
    else
      redis.call('PERSIST', key)
    end
  end
  local is_over = expires and milliseconds() >= tonumber(expires)
  if is_over then
    redis.call('UNLINK', unpack(keys))
  end
  return is_over
end
