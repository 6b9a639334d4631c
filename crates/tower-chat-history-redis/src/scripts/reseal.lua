-- Replaces the sealed form of an exchange. Arguments: incarnation, position, the record that it must have, the new
-- record, its recalled messages or '', and its provenance or ''.
local incarnation, seq, from, to, shown, made = unpack(ARGV)
seq = tonumber(seq)
local self = find('')
if not self then
  return {'gone'}
end
whole(self)
if self.i ~= incarnation then
  return {'gone'}
elseif seq < self.f or seq >= self.n then
  return {'other'}
end
local record = redis.call('LINDEX', log, seq - self.b)
if record == to then
  -- This call has run before, and its response was lost.
  return {'resealed'}
end
local value, provenance = redis.call('HGET', recalled, seq), redis.call('HGET', provenances, seq)
if record ~= from or not value ~= (shown == '') or not provenance ~= (made == '')
  or value and erased(self, seq, value) then
  return {'other'}
end
demand('LSET', log, '0', '')
demand('HSET', recalled, '', '')
demand('HSET', provenances, '', '')
-- The first write is one that a full server refuses: nothing is written then.
local written = redis.pcall('LSET', log, seq - self.b, to)
if type(written) == 'table' and written.err then
  return refused_write(written)
end
if shown ~= '' then
  redis.call('HSET', recalled, seq, shown)
end
if made ~= '' then
  redis.call('HSET', provenances, seq, made)
end
return {'resealed'}
