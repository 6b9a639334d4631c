-- Reads a window: profile, exchange id or '', what is known (incarnation, version, first, compaction version), and the limit
-- in messages and bytes.
local profile, exchange, incarnation, version, first, known_cut = unpack(ARGV, 1, 6)
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

-- Nothing of the lists is returned here: that they are there is enough.
if self.i == incarnation and self.n == tonumber(version) and self.f == tonumber(first)
  and string.sub(self.v or '0 ', 1, #known_cut + 1) == known_cut .. ' ' then
  if redis.call('EXISTS', log, index, ids) < 3 then
    damaged(self.f)
  end
  return {'unchanged'}
end
