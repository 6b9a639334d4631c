-- Reads all compactions, and the number by which a change of them is noticed.
local self, wrong = find('')
if wrong then
  return wrong
end
if not self then
  return {'absent'}
end
return {'compactions', self.k, redis.call('HGETALL', meta)}
