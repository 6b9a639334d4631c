-- Goes on where `load.lua` ends.
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
-- What is not more than that since the log began is not more since any of its positions.
if not fits({messages = 0, bytes = 0}) and not fits(entry(self, start)) then
  -- As `WindowScan` decides it. What has no opening, or begins with the only one that there can be, comes whole.
  from = fitting(self, start, fits) or start
end
local stopped = from > start
-- Each record comes with its entry, and at last the sums at the log's end: the client compares them.
local first, last = from - self.b, self.n - 1 - self.b
local records, entries = redis.call('LRANGE', log, first, last), redis.call('LRANGE', index, first, last)
return {'window', self.i, self.n, self.f, self.v, record, stopped and 1 or 0, from, records, entries, self.messages,
  self.bytes, self.openings}
