-- Copies the beginning of a log into a new conversation, whose keys are the first seven. The keys of the log follow.
-- Arguments: how to take the log ('COPY', 'RENAME' if it was staged, or the reply 'gone', 'nothing' or 'again' if there
-- is none to take), its incarnation, that of the copy, the position of the first exchange that is not copied, the stamp
-- and the time of the copy's registration (as for `append.lua`), the time of the fork, milliseconds to live, the labels
-- or '', and optionally the compaction of the copy (see `write.lua`).
local take, incarnation, fresh, before, registered, registered_at, time, ttl, labels = unpack(ARGV, 1, 9)
local COMPACTION = 10
-- The number of keys before those of the log.
local LOG_KEYS = 7

local copy = find('')
if copy then
  whole(copy)
  -- The client compares the incarnations. If they are the same, an earlier attempt has made the copy.
  return {'exists', copy.i, copy.n, copy.f}
end

if registered == 'erased' then
  return {'gone'}
elseif is_outdated(tonumber(registered), tonumber(registered_at)) then
  return {'again'}
end
if take ~= 'COPY' and take ~= 'RENAME' then
  return {take}
end

-- The functions for a conversation now read the log.
meta, log, index, ids, recalled, provenances = unpack(KEYS, LOG_KEYS + 1, LOG_KEYS + 6)
local self = find('')
if not self then
  -- Staged keys may have expired.
  return {take == 'COPY' and 'gone' or 'again'}
end
whole(self)
if self.i ~= incarnation then
  return {'gone'}
end

local len = math.min(tonumber(before), self.n)
if len <= self.f then
  return {'nothing'}
end
if len < self.n then
  -- The rest is copied with the keys, and removed from the copy in small steps, as after a truncation.
  local rest = entry(self, len)
  self.x = self.x + self.n - len
  self.n, self.messages, self.bytes = len, rest.messages, rest.bytes
  self.media, self.openings = rest.media, rest.openings
end
local bytes = self.bytes - entry(self, self.f).bytes
meta, log, index, ids, recalled, provenances = unpack(KEYS, 1, 6)

self.e, self.w, self.u = 0, 0, 0
if self.r > 0 then
  -- No call returns recalled messages of the copy that cite a pruned exchange or another conversation. They are removed
  -- in small steps, as after an erasing prune.
  self.e, self.w, self.u = self.f, self.f, self.n
end

time = tonumber(time)
self.t, self.i, self.p, self.c, self.m = ttl ~= '' and 1 or 0, fresh, tonumber(registered), time, time

-- The places of the keys to take. Those of the state have other contents in the copy, and staged ones only the state.
local places = {2, 3, 4}
if self.r > 0 then
  places[#places + 1] = 5
end
if self.o < self.n + self.x then
  places[#places + 1] = 6
end
if take == 'RENAME' then
  places[#places + 1] = 1
end

local expires = ttl ~= '' and string.format('%.0f', milliseconds() + ttl)
local keys = {meta}
for _, place in ipairs(places) do
  demand(take, KEYS[LOG_KEYS + place], KEYS[place])
  if place > 1 then
    keys[#keys + 1] = KEYS[place]
  end
end
demand('HSET', meta, '', '')
demand_sweep()
demand_expiry(keys, expires)

for _, place in ipairs(places) do
  -- A full server refuses the first copy: nothing is written then. Later writes are not refused.
  local taken = redis.pcall(take, KEYS[LOG_KEYS + place], KEYS[place])
  if type(taken) == 'table' and taken.err then
    local refused = refused_write(taken)
    if refused[1] == 'full' then
      table.insert(refused, 2, bytes)
    end
    return refused
  end
end

local fields = {'s', packed(self)}
if labels ~= '' then
  fields[3], fields[4] = 'l', '1 0 ' .. labels
end
redis.call('HSET', meta, unpack(fields))
if ARGV[COMPACTION] then
  redis.call('HSET', meta, unpack(select(2, compaction_fields(COMPACTION, '0'))))
end

-- Copied keys expire when those of the log do, and staged ones soon.
set_expiry(keys, expires)
return {'exists', self.i, self.n, self.f}
