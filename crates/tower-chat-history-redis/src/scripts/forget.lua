-- Removes names whose conversations do not exist and cannot be created under their registrations any more. Arguments:
-- for each name, the name and the stamp before which it must have been registered.
demand('ZMSCORE', registered, '')
demand('ZREM', registered, '')
demand('ZREM', names, '')
for at = 1, #ARGV, 2 do
  local stamp = redis.call('ZMSCORE', registered, ARGV[at])[1]
  if not stamp or tonumber(stamp) < tonumber(ARGV[at + 1]) then
    redis.call('ZREM', registered, ARGV[at])
    redis.call('ZREM', names, ARGV[at])
  end
end
return {'forgotten'}
