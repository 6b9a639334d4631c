-- Returns a stamp, which is greater than those of all earlier registrations. The argument is a stamp that it must
-- exceed.
local stamp = next_stamp(tonumber(ARGV[1]))
demand('HSET', epochs, 'clock', '')
redis.call('HSET', epochs, 'clock', text(stamp))
return {'stamp', stamp}
