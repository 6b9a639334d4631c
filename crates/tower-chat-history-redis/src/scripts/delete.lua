-- Deletes a conversation that was registered before a stamp of the registry, and keeps calls that registered it before
-- from creating it. The argument is the stamp. A conversation that was registered later is left as it is: it began
-- during the deletion, or the registry lost its clock.
local stamp = tonumber(ARGV[1])
demand_fence()
demand('UNLINK', unpack(KEYS, 1, 6))
raise_fence(stamp)
local later = began()
if later and later >= stamp then
  return {'later', later}
end
redis.call('UNLINK', unpack(KEYS, 1, 6))
return {'deleted'}
