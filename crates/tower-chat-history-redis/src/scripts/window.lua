-- Continues `load.lua`.
whole(self)
local most_messages, most_bytes = tonumber(ARGV[8]), tonumber(ARGV[9])
local window, record = '0', false
if self.v then
  local _
  _, window = positions(self.v)
  record = redis.call('HGET', meta, 'c:' .. profile)
  if not window or not record then
    return {'compaction'}
  end
end
local start = math.max(tonumber(window), self.f)
if start >= self.n then
  return {'compaction'}
end
local function fits(at)
  return self.messages - at.messages <= most_messages and self.bytes - at.bytes <= most_bytes
end
local from = start
-- If the sums since the beginning of the log do not exceed the limits, no later sums do.
if not fits({messages = 0, bytes = 0}) and not fits(entry(self, start)) then
  -- The same rules as in `WindowScan`. A log without an opening, or whose only opening is its start, is returned whole.
  from = fitting(self, start, fits) or start
end
local stopped = from > start
-- The client compares each record with its entry, and the entries with the sums at the log's end.
local first, last = from - self.b, self.n - 1 - self.b
local records, entries = redis.call('LRANGE', log, first, last), redis.call('LRANGE', index, first, last)
return {'window', self.i, self.n, self.f, self.v, record, stopped and 1 or 0, from, records, entries,
  recalled_of(self, from, entries), provenances_of(self, from, #entries), self.messages, self.bytes, self.openings,
  self.bytes - (self.f > 0 and entry(self, self.f).bytes or 0)}
