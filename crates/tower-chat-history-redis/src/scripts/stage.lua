-- Stages exchanges of a log that is on another server than its copy, until `fork.lua` makes the copy of them.
-- Arguments: the incarnation of the log, its first position, the position of the first of the exchanges, and for each
-- its record, its index entry, its recalled messages or '', and its provenance or ''.
--
-- The keys are those of a conversation, with other names, and expire soon.
local incarnation, first, from = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local EXCHANGES = 4
local STAGED_MILLIS = 600000

local self = find('')
if self and self.n == from + (#ARGV - EXCHANGES + 1) / 4 then
  -- This call has run before, and its response was lost.
  return {'staged'}
end
self = self or {t = 1, i = incarnation, p = 0, n = first, f = first, b = first, x = 0, messages = 0, bytes = 0,
  media = 0, openings = 0, c = 0, m = 0, r = 0, u = 0, o = first}
if self.n ~= from then
  -- The exchanges that were staged before have expired.
  return {'again'}
end

local expires = string.format('%.0f', milliseconds() + STAGED_MILLIS)
local keys = {meta, log, index, ids, recalled, provenances}

demand('RPUSH', log, '')
demand('RPUSH', index, '')
demand('HSET', ids, '', '')
demand('HSET', recalled, '', '')
demand('RPUSH', provenances, '')
demand('HSET', meta, '', '')
demand_expiry(keys, expires)

for at = EXCHANGES, #ARGV, 4 do
  local record, entry, shown, made = unpack(ARGV, at, at + 3)
  -- A full server refuses the first write: nothing is written then. Later writes are not refused.
  local pushed = redis.pcall('RPUSH', log, record)
  if type(pushed) == 'table' then
    return refused_write(pushed)
  end

  if shown ~= '' then
    redis.call('HSET', recalled, self.n, shown)
    self.r = self.r + 1
  elseif has_recalled(entry) then
    -- The recalled messages were erased.
    entry = string.char(string.byte(entry) - 2) .. string.sub(entry, 2)
  end

  if made ~= '' or self.o < self.n then
    redis.call('RPUSH', provenances, made)
  else
    self.o = self.n + 1
  end

  redis.call('RPUSH', index, entry)
  redis.call('HSET', ids, string.sub(entry, ID), self.n)

  local opens, messages, bytes, media, openings, own_messages, own_bytes, own_media = numbers(entry)
  self.n = self.n + 1
  self.messages, self.bytes = messages + own_messages, bytes + own_bytes
  self.media, self.openings = media + own_media, openings + opens
end

redis.call('HSET', meta, 's', packed(self))
set_expiry(keys, expires)
return {'staged'}
