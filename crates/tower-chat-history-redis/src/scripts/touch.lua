-- Gives names a new stamp, so that they count as old later. Arguments: for each name, the name and its stamp.
local stamp = next_stamp(0)
demand('HSET', epochs, 'clock', '')
demand('ZMSCORE', registered, '')
demand('ZADD', registered, '0', '')
redis.call('HSET', epochs, 'clock', text(stamp))
for at = 1, #ARGV, 2 do
  local found = redis.call('ZMSCORE', registered, ARGV[at])[1]
  if found and tonumber(found) == tonumber(ARGV[at + 1]) then
    redis.call('ZADD', registered, text(stamp), ARGV[at])
  end
end
return {'touched'}
