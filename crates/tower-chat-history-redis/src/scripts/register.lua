-- Registering a conversation that a call is about to create.

-- The number of old names that a registration returns, if there are as many.
local STALE = 32

-- Returns the digests under which the registry records what removes a conversation: the deletion of its id, and the
-- erasure of a prefix that contains the id.
local function digests_of(id)
  local digests = {digest_of('=' .. id), digest_of('/'), digest_of(id .. '/')}
  local slash = string.find(id, '/', 1, true)
  while slash do
    digests[#digests + 1] = digest_of(string.sub(id, 1, slash))
    slash = string.find(id, '/', slash + 1, true)
  end
  return digests
end

-- Returns true if the id was erased since the epoch, or if nobody knows because the erasures were forgotten.
local function is_erased_since(id, since)
  local found = redis.call('HMGET', epochs, 'epoch', 'forgotten')
  local epoch, forgotten = tonumber(found[1] or 0), tonumber(found[2] or 0)
  if since > epoch or since < forgotten then
    return true
  end

  if since < epoch then
    for _, erased in ipairs(redis.call('ZMSCORE', erasures, unpack(digests_of(id)))) do
      if erased and tonumber(erased) > since then
        return true
      end
    end
  end
  return false
end

-- Registers a conversation that a call is about to create. The epoch since which it must not have been erased is a text
-- or ''. So is the age from which on a name may belong to no conversation, in microseconds. Returns the reply:
-- 'erased', 'full', or 'registered' with the stamp, the time, and old names with their stamps.
local function register_id(id, since, age)
  if since ~= '' and is_erased_since(id, tonumber(since)) then
    return {'erased'}
  end

  local stamp, time = next_stamp(0), now()
  -- The oldest names, if there are many old ones. Their conversations may have expired.
  local stale = {}
  if age ~= '' then
    local before = '(' .. text(time - tonumber(age))
    if redis.call('ZCOUNT', registered, '-inf', before) >= STALE then
      stale = redis.call('ZRANGE', registered, '-inf', before, 'BYSCORE', 'LIMIT', 0, STALE, 'WITHSCORES')
    end
  end

  demand('HSET', epochs, 'clock', '')
  demand('ZADD', names, '0', '')
  demand('ZADD', registered, '0', '')
  -- The first write is one that a full server refuses: nothing is written then.
  local written = redis.pcall('HSET', epochs, 'clock', text(stamp))
  if type(written) == 'table' then
    return refused_write(written)
  end
  redis.call('ZADD', registered, text(stamp), id)
  redis.call('ZADD', names, 0, id)
  return {'registered', stamp, time, stale}
end

-- Registers a conversation. Arguments: the id, the epoch, and the age (see `register_id`).
local function register()
  return register_id(ARGV[1], ARGV[2], ARGV[3])
end

