-- Reads all compactions, and the number by which a change of them is noticed.
local self = find('')
if not self then
  return {'absent'}
end
return {'compactions', self.k, redis.call('HGETALL', meta)}
