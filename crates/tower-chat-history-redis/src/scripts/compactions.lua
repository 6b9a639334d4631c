-- Reads all compactions, the revision, and the number by which a change of compactions is noticed.
local self = find('')
if not self then
  return {'absent'}
end
return {'compactions', self.i, self.n, self.f, self.k, redis.call('HGETALL', meta)}
