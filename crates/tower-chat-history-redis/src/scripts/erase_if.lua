-- Deletes a conversation if it has this revision, and returns the numbers of what it removed. Arguments: the stamp, the
-- incarnation, and where the log ends and begins.
local stamp, incarnation, ends, begins = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local self = find('')
if not self then
  -- This call may have run before, and its response was lost.
  local raised, numbers = fence()
  if raised == stamp and numbers ~= '' then
    return {'erased', numbers}
  end
  return {'other'}
end
whole(self)
if self.i ~= incarnation or self.n ~= ends or self.f ~= begins then
  return {'other'}
end
demand_fence()
demand('UNLINK', unpack(KEYS, 1, 6))
local numbers = counted()
raise_fence(stamp, numbers)
redis.call('UNLINK', unpack(KEYS, 1, 6))
return {'erased', numbers}
