-- Shared by the scripts of the registry, which is divided into slots. A slot has the ids of the conversations that hash
-- to it:
--
-- - names, a sorted set: the ids, all with score 0, so that they are in the order of their texts
-- - registered, a sorted set: the ids, each with the stamp of its last registration
-- - erasures, a sorted set: digests of erased ids and prefixes (see `digest_of`), each with its epoch
-- - epochs, a hash: clock, the last stamp; epoch, the stamp of the last erasure; forgotten, the epoch of the newest
--   erasure that is no longer in `erasures`
--
-- Stamps order the registrations and erasures of a slot: each is greater than all earlier ones. A stamp is about the
-- time in microseconds, so stamps stay in order even if a failover loses the last ones.
--
-- These are the last keys of each script.
local names, registered, erasures, epochs = unpack(KEYS, #KEYS - 3)

-- Returns the server's time in microseconds.
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Returns the next stamp, which is greater than `above` as well.
local function next_stamp(above)
  local clock = tonumber(redis.call('HGET', epochs, 'clock') or 0)
  return math.max(clock + 1, above + 1, now())
end

local function text(number)
  return string.format('%.0f', number)
end

-- Returns the member of `erasures` for a text: "=", followed by the id of a deleted conversation, or an erased prefix,
-- followed by "/". An erasure leaves only a digest, because an id may say who took part.
local function digest_of(erased)
  return string.sub(redis.sha1hex(erased), 1, 20)
end

