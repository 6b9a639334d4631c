-- Reads the entry of a conversation in a listing.
local self = find('')
if not self then
  return {'absent'}
end
whole(self)

return {'described', self.i, self.n, self.f, self.c, self.m, self.bytes - entry(self, self.f).bytes,
  redis.call('HGET', meta, 'l')}
