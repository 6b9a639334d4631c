-- Removes a conversation, if it is still in the life in which it was seen: its state then, or '' if there was none. In every
-- layout the incarnation stands where it does now.
local state = redis.pcall('HGET', KEYS[1], 's')
if type(state) ~= 'string' then
  -- There is none, or something else in its place.
  state = ''
end
if string.sub(state, 3, 18) ~= string.sub(ARGV[1], 3, 18) then
  return {'changed', state}
end
redis.call('UNLINK', unpack(KEYS))
return {'deleted'}
