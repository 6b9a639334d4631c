-- Deletes a conversation if its incarnation is the given one. The argument is the state that was seen, or ''. The
-- incarnation has the same place in every layout.
local state = redis.pcall('HGET', KEYS[1], 's')
if type(state) ~= 'string' then
  -- There is no state, or the key has another type.
  state = ''
end
if string.sub(state, 3, 18) ~= string.sub(ARGV[1], 3, 18) then
  return {'changed', state}
end
demand('UNLINK', unpack(KEYS))
redis.call('UNLINK', unpack(KEYS))
return {'deleted'}
