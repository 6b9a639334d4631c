-- Reads a window. Arguments: profile, exchange id or '', the known state (incarnation, version, first, compaction
-- version, id of the newest exchange or ''), 1 if the exchanges since the known state suffice, the limits in messages
-- and bytes, and the limit of `large.lua`.
local profile, exchange, incarnation, version, first, known_cut, newest = unpack(ARGV, 1, 7)
local self = find(profile)
if not self then
  return {'absent'}
end

if exchange ~= '' then
  whole(self)
  local at = recorded(exchange)
  if at and at >= self.f and at < self.n then
    local shown = ''
    if self.r > 0 and has_recalled(redis.call('LINDEX', index, at - self.b)) then
      shown = recalled_at(self, at)
    end
    local record, made = redis.call('LINDEX', log, at - self.b), provenances_of(self, at, 1)[1] or ''
    if is_large(size_of({record, shown, made})) then
      return LARGE
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
