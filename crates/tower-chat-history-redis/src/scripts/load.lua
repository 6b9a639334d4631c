-- Reads a window. Arguments: profile, exchange id or '', the known state (incarnation, version, first, compaction
-- version, id of the newest exchange or ''), 1 if the exchanges since the known state suffice, the limits in messages,
-- in bytes without media and in bytes of media, and the limit of the answer in bytes or ''. If the answer is larger
-- than that, the script returns 'large'.
local profile, exchange, incarnation, version, first, known_cut, newest = unpack(ARGV, 1, 7)
local most_answered = tonumber(ARGV[12]) or math.huge
local self = find(profile)
if not self then
  return {'absent'}
end

if exchange ~= '' then
  whole(self)
  local at = recorded(exchange)
  if at and at >= self.f and at < self.n then
    local record = redis.call('LINDEX', log, at - self.b)
    local shown = ''
    if self.r > 0 and has_recalled(redis.call('LINDEX', index, at - self.b)) then
      shown = recalled_at(self, at)
    end
    local made = provenances_of(self, at, 1)[1] or ''
    if #record + #shown + #made > most_answered then
      return {'large'}
    end
    return {'recorded', at, record, shown, made}
  end
end

-- The known next position, if the log can only have grown since.
local known = self.i == incarnation and self.f == tonumber(first)
  and string.sub(self.v or '0 ', 1, #known_cut + 1) == known_cut .. ' ' and tonumber(version)
if known == self.n then
  -- No element of the lists is returned here, so it is enough that the lists exist.
  if redis.call('EXISTS', log, index, ids) < 3 or self.r > 0 and redis.call('EXISTS', recalled) == 0
    or self.o < self.n + self.x and redis.call('EXISTS', provenances) == 0 then
    damaged(self.f)
  end

  local last = newest ~= '' and redis.call('LINDEX', index, known - 1 - self.b)
  if newest == '' or last and string.sub(last, ID) == newest then
    return {'unchanged'}
  end
end

whole(self)
local most_messages, most_text, most_media = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])

-- Returns true if the log from a position on is within the limits.
local function fits(at)
  local media = self.media - at.media
  return self.messages - at.messages <= most_messages and self.bytes - at.bytes - media <= most_text
    and media <= most_media
end

-- Returns the recalled messages of consecutive exchanges that have some, by their entries.
local function recalled_of(from, entries)
  local values = {}
  if self.r > 0 then
    for at, entry in ipairs(entries) do
      if has_recalled(entry) then
        values[#values + 1] = recalled_at(self, from + at - 1)
      end
    end
  end
  return values
end

-- Returns the size of texts. Some may be false.
local function size_of(texts)
  local size = 0
  for _, text in ipairs(texts) do
    size = size + (text and #text or 0)
  end
  return size
end

-- Returns the exchanges from a position on, with the compaction if the caller does not know it. The client compares
-- each record with its entry.
local function from_position(word, from, compaction, stopped)
  local first, last = from - self.b, self.n - 1 - self.b
  local entries = redis.call('LRANGE', index, first, last)
  local shown, made = recalled_of(from, entries), provenances_of(self, from, #entries)

  local _, _, before = numbers(entries[1])
  if self.bytes - before + size_of(compaction) + size_of(shown) + size_of(made) > most_answered then
    return {'large'}
  end

  local records = redis.call('LRANGE', log, first, last)
  return {word, self.i, self.n, self.f, compaction[1], compaction[2], compaction[3], stopped and 1 or 0, from, records,
    entries, shown, joined(made), self.bytes - (self.f > 0 and entry(self, self.f).bytes or 0)}
end

if ARGV[8] == '1' and newest ~= '' and known and known > self.f and known < self.n and fits(entry(self, known))
  and string.sub(redis.call('LINDEX', index, known - 1 - self.b), ID) == newest then
  return from_position('added', known, {false, false, false}, false)
end

local window, compaction = '0', {false, false, false}
if self.v then
  compaction = {kept(self, profile)}
  window = select(2, compaction_numbers(self.v))
  if not window or not compaction[2] or not compaction[3] then
    return {'compaction'}
  end
end

local start = math.max(tonumber(window), self.f)
if start >= self.n then
  return {'compaction'}
end

local from = start
-- If the sums since the beginning of the log do not exceed the limits, no later sums do.
if not fits({messages = 0, bytes = 0, media = 0}) and not fits(entry(self, start)) then
  -- The same rules as in `WindowScan`. A log without an opening, or whose only opening is its start, is returned whole.
  from = fitting(self, start, fits) or start
end
return from_position('window', from, compaction, from > start)
