-- Reads exchanges at some positions. Arguments: the incarnation and the first position of the log at the first step, or
-- '' for the first step; the largest size of a reply; the positions; and the limit of `large.lua`.
local incarnation, first, most = ARGV[1], ARGV[2], tonumber(ARGV[3])
local self = find('')
if not self then
  return {incarnation == '' and 'absent' or 'changed'}
end
whole(self)
if incarnation ~= '' and (self.i ~= incarnation or self.f ~= tonumber(first)) then
  return {'changed'}
end
local found, records, entries, values, made, size, at = {}, {}, {}, {}, {}, 0, 4
while at < #ARGV do
  local seq = tonumber(ARGV[at])
  if seq >= self.f and seq < self.n then
    local entry = redis.call('LINDEX', index, seq - self.b)
    local _, _, _, _, _, own = numbers(entry)
    if not own then
      damaged(seq)
    end
    local value = self.r > 0 and has_recalled(entry) and recalled_at(self, seq)
    local made_after = provenances_of(self, seq, 1)[1]
    size = size + own + (value and #value or 0) + (made_after and #made_after or 0)
    if #found > 0 and size > most then
      break
    elseif is_large(size) then
      return LARGE
    end
    found[#found + 1], records[#records + 1] = seq, redis.call('LINDEX', log, seq - self.b)
    entries[#entries + 1] = entry
    values[#values + 1] = value or nil
    made[#made + 1] = made_after
  end
  at = at + 1
end
return {'picked', self.i, self.n, self.f, at - 4, found, records, entries, values, made, self.messages, self.bytes,
  self.openings}
