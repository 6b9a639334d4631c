-- Continues `load.lua`.
whole(self)
local most_messages, most_bytes = tonumber(ARGV[9]), tonumber(ARGV[10])
local function fits(at)
  return self.messages - at.messages <= most_messages and self.bytes - at.bytes <= most_bytes
end

-- Returns the exchanges from a position on, with the compaction if the caller does not know it. The client compares
-- each record with its entry.
local function from_position(word, from, compaction, stopped)
  local first, last = from - self.b, self.n - 1 - self.b
  local entries = redis.call('LRANGE', index, first, last)
  local shown, made = recalled_of(self, from, entries), provenances_of(self, from, #entries)
  local _, _, before = numbers(entries[1])
  if is_large(self.bytes - before + size_of(compaction) + size_of(shown) + size_of(made)) then
    return LARGE
  end
  local records = redis.call('LRANGE', log, first, last)
  return {word, self.i, self.n, self.f, compaction[1], compaction[2], compaction[3], stopped and 1 or 0, from, records,
    entries, shown, made, self.bytes - (self.f > 0 and entry(self, self.f).bytes or 0)}
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
if not fits({messages = 0, bytes = 0}) and not fits(entry(self, start)) then
  -- The same rules as in `WindowScan`. A log without an opening, or whose only opening is its start, is returned whole.
  from = fitting(self, start, fits) or start
end
return from_position('window', from, compaction, from > start)
