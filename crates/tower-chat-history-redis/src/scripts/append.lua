-- Appends an exchange. Arguments: id, expectation (kind, incarnation, version), the position that it continues, 1 if it
-- opens a turn, the number of messages that it counts as, their bytes, how many of these are media, its record, random
-- bytes for a new log, the name of this call, milliseconds to live, its recalled messages or '', its provenance or '',
-- its time, the position at which a new log begins, the stamp and the time of its registration, and optionally a
-- compaction (see `write.lua`).
--
-- The stamp is '' if the call has not registered the conversation, and 'erased' if the registry refused it.
local id, expect, incarnation, version, continues, opens, messages, bytes, media, body, random, call, ttl, shown, made,
  time, first, registered, registered_at = unpack(ARGV, 1, 19)
local COMPACTION = 20
-- The largest number of elements of a list, and of positions that fit into the state.
local MOST_ELEMENTS, MOST_POSITIONS = 4294967295, 281474976710655

local profile = ARGV[COMPACTION]
local self = find(profile or '')
local at = self and self.n or tonumber(first)

if self then
  whole(self)
  local known = recorded(id)
  if known then
    if known < self.f or known >= self.n then
      -- The exchange was removed but not swept yet. Its id is free again.
      return {'sweep'}
    end
    local stored = redis.call('LINDEX', index, known - self.b)
    if string.sub(stored, CALL, ID - 1) ~= call then
      return {'duplicate', self.i, self.n, self.f, known}
    end

    -- This call has run before, and its response was lost.
    if not profile then
      return {'stored', self.i, known + 1, self.f, known, 'none'}
    elseif stored_by(self, call) then
      return {'stored', self.i, known + 1, self.f, known, 'compacted', compaction_numbers(self.v), false}
    end
    return {'stored', self.i, known + 1, self.f, known, 'kept', kept(self, profile)}
  end
end

if registered == 'erased' then
  return {'gone'}
elseif registered ~= '' and is_outdated(tonumber(registered), tonumber(registered_at)) then
  return {'again'}
end

local fits = expect == 'any'
if expect == 'absent' then
  fits = not self
elseif expect == 'in' then
  fits = self and self.i == incarnation
elseif expect == 'exactly' then
  fits = self and self.i == incarnation and self.n == tonumber(version)
end
if not fits then
  if self then
    return {'refused', self.i, self.n, self.f}
  end
  return {'refused'}
end

-- The first exchange of a log continues nothing, also no position before it.
if continues ~= '' and (not self or tonumber(continues) >= at) then
  return {'unknown', at}
end
if at - (self and self.b or at) >= MOST_ELEMENTS or at >= MOST_POSITIONS then
  return {'longest'}
end
if self and self.x > 0 then
  -- The rest of a truncation is still stored at the position of the new exchange.
  return {'sweep'}
end
if not self and registered == '' then
  return {'register'}
end

opens, messages, bytes, media = tonumber(opens), tonumber(messages), tonumber(bytes), tonumber(media)
time = tonumber(time)
if not self then
  -- The conversation may be deleted before this call is repeated. The repetition begins another incarnation then, so
  -- the incarnation contains the time.
  local now = redis.call('TIME')
  local fresh = string.sub(random, 1, 10) .. struct.pack('>I6', now[1] % 100000000 * 1000000 + now[2])
  self = {i = fresh, t = 0, p = tonumber(registered), n = at, f = at, b = at, x = 0, messages = 0, bytes = 0,
    media = 0, openings = 0, c = time, m = time, r = 0, u = 0, o = at}
end

local flags = opens
if shown ~= '' then
  flags, self.r = opens + 2, self.r + 1
end
local has_provenances = made ~= '' or self.o < at
local entry = struct.pack(NUMBERS, flags, self.messages, self.bytes, self.media, self.openings, messages, bytes, media)
  .. call .. id

local expired, sweeps, expires = self.t == 1, self.b < self.f or self.u > 0, nil
demand('RPUSH', log, '')
demand('RPUSH', index, '')
demand('HSET', ids, '', '')
demand('HSET', meta, '', '')
if shown ~= '' then
  demand('HSET', recalled, '', '')
end
if has_provenances then
  demand('RPUSH', provenances, '')
end

if ttl ~= '' then
  expires = string.format('%.0f', milliseconds() + ttl)
end
local keys = {}
if expires or expired then
  keys = {meta, log, index, ids}
  if self.r > 0 then
    keys[#keys + 1] = recalled
  end
  if has_provenances then
    keys[#keys + 1] = provenances
  end
end
demand_expiry(keys, expires)
if sweeps then
  demand_sweep()
end

-- The first write is one that a full server refuses: nothing is written then. Later writes are not refused.
local pushed = redis.pcall('RPUSH', log, body)
if type(pushed) == 'table' then
  return refused_write(pushed)
end
redis.call('RPUSH', index, entry)
redis.call('HSET', ids, id, at)
if shown ~= '' then
  redis.call('HSET', recalled, at, shown)
end
if has_provenances then
  redis.call('RPUSH', provenances, made)
else
  self.o = at + 1
end

self.n, self.m = at + 1, math.max(self.m, time)
self.messages, self.bytes = self.messages + messages, self.bytes + bytes
self.media, self.openings = self.media + media, self.openings + opens
self.t = ttl ~= '' and 1 or 0

local answer, stored = {'stored', self.i, at + 1, self.f, at, 'none'}, {}
if profile and replaces(self, COMPACTION) then
  answer[6] = 'compacted'
  answer[7], stored = compaction_fields(COMPACTION, call)
elseif profile then
  answer[6] = 'kept'
  answer[7], answer[8], answer[9] = kept(self, profile)
end
redis.call('HSET', meta, 's', packed(self), unpack(stored))

if set_expiry(keys, expires) then
  return answer
end
if sweeps then
  -- A prune or an erasure was interrupted: its rest is removed in small steps.
  sweep(self, 64)
end
return answer
