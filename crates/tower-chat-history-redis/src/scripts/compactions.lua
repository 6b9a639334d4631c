-- Reads all compactions, the revision, and the number of compaction changes.
local self = find('')
if not self then
  return {'absent'}
end
return {'compactions', self.i, self.n, self.f, self.k, redis.call('HGETALL', meta)}
