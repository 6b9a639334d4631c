-- Adds an exchange: id, what is expected (kind, incarnation, version), what it continues, whether it opens a turn, its messages
-- and their bytes, its record, an incarnation for a new log, this call's name, milliseconds to live, and then perhaps a compaction (`cut_at`).
local id, expect, incarnation, version, continues, opens, messages, bytes, body, fresh, call, ttl = unpack(ARGV, 1, 12)
local CUT = 13
local profile = ARGV[CUT]
local self, wrong = find(profile or '')
if wrong then
  return wrong
end
local at = self and self.n or 0

if self then
  local known = redis.call('HGET', ids, id)
  if known then
    known = tonumber(known)
    if not known then
      return {'damaged', self.f}
    end
    if known < self.f or known >= self.n then
      -- The exchange was removed, but not swept yet. Its id is free again.
      return {'sweep'}
    end
    if string.sub(redis.call('LINDEX', index, known - self.b), CALL, ID - 1) == call then
      -- This very call was made before and its answer got lost.
      if profile then
        return {'stored', self.i, known + 1, self.f, known, outcome(self, call)}
      end
      return {'stored', self.i, known + 1, self.f, known, 'none'}
    end
    return {'duplicate', self.i, self.n, self.f, known}
  end
end

local fits = expect == 'any'
if expect == 'absent' then
  fits = not self
elseif expect == 'in' then
  fits = self and self.i == incarnation
elseif expect == 'exactly' then
  fits = self and self.i == incarnation and self.version == version
end
if not fits then
  if self then
    return {'refused', self.i, self.n, self.f}
  end
  return {'refused'}
end
if continues ~= '' and tonumber(continues) >= at then
  return {'unknown', at}
end
if at >= 4294967295 then
  return {'longest'}
end
if self and self.x > 0 then
  -- What a truncation removed still stands where the exchange is to go.
  return {'sweep'}
end

local cut, verdict
if profile then
  cut = cut_at(CUT)
  verdict, wrong = judge(self, at + 1, at, opens == '1', cut.v, cut)
  if wrong then
    return wrong
  end
end

local before = {messages = 0, bytes = 0, openings = 0}
if self then
  before = after(entry(self, at - 1))
end
local numbers_of = struct.pack(NUMBERS, tonumber(opens), before.messages, before.bytes, before.openings, tonumber(messages),
  tonumber(bytes))

-- The first write is one that a full server refuses: then nothing is written. What comes after it is not refused.
local pushed = redis.pcall('RPUSH', log, body)
if type(pushed) == 'table' then
  return refused_write(pushed)
end
redis.call('RPUSH', index, numbers_of .. call .. id)
redis.call('HSET', ids, id, at)
local fields = {'n', at + 1}
if not self then
  self = {i = fresh, n = 0, f = 0, b = 0, x = 0, k = 0}
  fields = {'i', fresh, 'n', 1, 'f', 0, 'b', 0, 'x', 0, 'k', 0}
end
local kind, first, second = 'none', false, false
if verdict == 'store' then
  local number, stored = cut_fields(profile, cut.v, CUT, call, cut)
  for _, field in ipairs(stored) do
    fields[#fields + 1] = field
  end
  fields[#fields + 1] = 'k'
  fields[#fields + 1] = self.k + 1
  kind, first = 'cut', number
elseif verdict == 'keep' then
  kind, first, second = 'kept', self.v or false, self.c or false
end

if ttl ~= '' then
  -- One moment for all keys, or some would be gone before the others.
  local now = redis.call('TIME')
  local expires = now[1] * 1000 + math.floor(now[2] / 1000) + ttl
  if not self.t then
    fields[#fields + 1] = 't'
    fields[#fields + 1] = 1
  end
  redis.call('HSET', meta, unpack(fields))
  for _, key in ipairs(KEYS) do
    redis.call('PEXPIREAT', key, string.format('%.0f', expires))
  end
else
  redis.call('HSET', meta, unpack(fields))
  if self.t then
    for _, key in ipairs(KEYS) do
      redis.call('PERSIST', key)
    end
    redis.call('HDEL', meta, 't')
  end
end
if self.b < self.f then
  -- A prune was broken off: its rest goes bit by bit.
  sweep(self, 64)
end
return {'stored', self.i, at + 1, self.f, at, kind, first, second}
