-- Deletes a conversation as `delete.lua` does, and returns the numbers of what it removed, or nothing and the fence
-- that it found. The argument is the stamp.
local stamp = tonumber(ARGV[1])
demand_fence()
demand('UNLINK', unpack(KEYS, 1, 6))
local later = began()
if not later or later < stamp then
  local numbers = counted()
  if numbers then
    raise_fence(stamp, numbers)
    redis.call('UNLINK', unpack(KEYS, 1, 6))
    return {'erased', numbers}
  end
end
-- This call may have run before, and its response was lost.
local raised, numbers = fence()
if raised == stamp and numbers ~= '' then
  return {'erased', numbers}
end
raise_fence(stamp)
if later then
  return {'later', later}
end
return {'erased', '', raised}
