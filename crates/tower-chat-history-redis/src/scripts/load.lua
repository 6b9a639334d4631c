-- Reads a window: profile, exchange id or '', what is known (incarnation, version, first, compaction version), and the limit
-- in messages and bytes.
local profile, exchange, incarnation, version, first, known_cut = unpack(ARGV, 1, 6)
local most_messages, most_bytes = tonumber(ARGV[7]), tonumber(ARGV[8])
local self, wrong = find(profile)
if wrong then
  return wrong
end
if not self then
  return {'absent'}
end

if exchange ~= '' then
  local at = tonumber(redis.call('HGET', ids, exchange) or nil)
  if at and at >= self.f and at < self.n then
    return {'recorded', at, redis.call('LINDEX', log, at - self.b)}
  end
end

local cut, window = '0', '0'
if self.v then
  cut, window = positions(self.v)
  if not cut or not self.c then
    return {'compaction'}
  end
end
if self.i == incarnation and self.version == version and self.first == first and cut == known_cut then
  return {'unchanged'}
end

local start = math.max(tonumber(window), self.f)
if start >= self.n then
  return {'compaction'}
end
local total, skipped = after(entry(self, self.n - 1)), entry(self, start)
local function fits(at)
  return total.messages - at.messages <= most_messages and total.bytes - at.bytes <= most_bytes
end
local from = start
if not fits(skipped) then
  -- As `WindowScan` decides it. What has no opening, or begins with the only one that there can be, comes whole.
  from = fitting(self, start, total, fits) or start
end
local stopped = from > start
local records = redis.call('LRANGE', log, from - self.b, self.n - 1 - self.b)
return {'window', self.i, self.n, self.f, self.v, self.c, stopped and 1 or 0, from, records}
