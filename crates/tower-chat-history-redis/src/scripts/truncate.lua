-- Removes the end of a log. Arguments: the expectation (incarnation, version), the first position to remove, the new
-- incarnation, the number of compaction changes that was seen, and the compactions that remain.
local incarnation, version, len, fresh, changes = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
local self = find('')
if not self then
  return {'absent'}
end
whole(self)
if self.i == next_life(self, fresh) then
  -- This call has run before, and its response was lost.
  return {'truncated', self.i, self.n, self.f}
end
if self.i ~= incarnation or self.n ~= tonumber(version) then
  return {'refused', self.i, self.n, self.f}
end
if len >= self.n then
  return {'whole', self.i, self.n, self.f}
end
if len <= self.f then
  demand('UNLINK', unpack(KEYS, 1, 8))
  redis.call('UNLINK', unpack(KEYS, 1, 8))
  return {'emptied', self.n - self.f}
end
if self.k ~= tonumber(changes) then
  return {'again'}
end
local before = entry(self, len)
local after = digits_of(len)
local gone = attachments_where(self, function(_, stop) return stop > after end)
demand('HDEL', meta, '')
demand_sweep()
demand_detach()
begin_incarnation(self, fresh, 6)
detach(self, gone)
self.x = self.x + self.n - len
if self.u > 0 then
  self.w, self.u = math.min(self.w, len), math.min(self.u, len)
end
self.n, self.messages, self.bytes, self.openings = len, before.messages, before.bytes, before.openings
redis.call('HSET', meta, 's', packed(self))
return {'truncated', self.i, len, self.f}
