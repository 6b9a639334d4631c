-- Keeps calls that registered a conversation before a stamp from creating it, if there is no such conversation. The
-- argument is the stamp.
if redis.call('EXISTS', unpack(KEYS, 1, 6)) > 0 then
  return {'exists'}
end
demand_fence()
raise_fence(tonumber(ARGV[1]))
return {'fenced'}
