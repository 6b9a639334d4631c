-- Reads a window: profile, exchange id or '', what is known (incarnation, version, first, compaction version, newest exchange's
-- id or ''), and the limit in messages and bytes.
local profile, exchange, incarnation, version, first, known_cut, newest = unpack(ARGV, 1, 7)
local self = find(profile)
if not self then
  return {'absent'}
end

if exchange ~= '' then
  whole(self)
  local at = recorded(self, exchange)
  if at and at >= self.f and at < self.n then
    return {'recorded', at, redis.call('LINDEX', log, at - self.b)}
  end
end

if self.i == incarnation and self.n == tonumber(version) and self.f == tonumber(first)
  and string.sub(self.v or '0 ', 1, #known_cut + 1) == known_cut .. ' ' then
  -- Nothing of the lists is returned here: that they are there is enough.
  if redis.call('EXISTS', log, index, ids) < 3 then
    damaged(self.f)
  end
  local last = newest ~= '' and redis.call('LINDEX', index, self.n - 1 - self.b)
  if newest == '' or last and string.sub(last, ID) == newest then
    return {'unchanged'}
  end
end
