-- Reads a window. Arguments: profile, exchange id or '', the known state (incarnation, version, first, compaction
-- version, id of the newest exchange or ''), and the limits in messages and bytes.
local profile, exchange, incarnation, version, first, known_cut, newest = unpack(ARGV, 1, 7)
local self = find(profile)
if not self then
  return {'absent'}
end

if exchange ~= '' then
  whole(self)
  local at = recorded(self, exchange)
  if at and at >= self.f and at < self.n then
    local shown = ''
    if self.r > 0 and has_recalled(redis.call('LINDEX', index, at - self.b)) then
      shown = recalled_at(self, at)
    end
    return {'recorded', at, redis.call('LINDEX', log, at - self.b), shown, provenances_of(self, at, 1)[1] or false}
  end
end

if self.i == incarnation and self.n == tonumber(version) and self.f == tonumber(first)
  and string.sub(self.v or '0 ', 1, #known_cut + 1) == known_cut .. ' ' then
  -- No element of the lists is returned here, so it is enough that the lists exist.
  local keys = {log, index, ids, self.r > 0 and recalled or nil}
  keys[#keys + 1] = self.o > 0 and provenances or nil
  if redis.call('EXISTS', unpack(keys)) < #keys then
    damaged(self.f)
  end
  local last = newest ~= '' and redis.call('LINDEX', index, self.n - 1 - self.b)
  if newest == '' or last and string.sub(last, ID) == newest then
    return {'unchanged'}
  end
end
