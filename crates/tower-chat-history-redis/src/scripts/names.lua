-- Reads names in order. Arguments: the text after which they begin, the text before which they end, their largest
-- number, 1 to return a stamp that is greater than those of all earlier registrations, and a name to read as well or
-- ''.
local after, before, most, stamps = '(' .. ARGV[1], '(' .. ARGV[2], ARGV[3], ARGV[4] == '1'
local found = redis.call('ZRANGE', names, after, before, 'BYLEX', 'LIMIT', 0, most)
if ARGV[5] ~= '' and redis.call('ZMSCORE', names, ARGV[5])[1] then
  table.insert(found, 1, ARGV[5])
end
local stamps_of = {}
if #found > 0 then
  for at, score in ipairs(redis.call('ZMSCORE', registered, unpack(found))) do
    stamps_of[at] = tonumber(score or 0)
  end
end
local time, stamp = now(), 0
if stamps then
  stamp = next_stamp(0)
  demand('HSET', epochs, 'clock', '')
  redis.call('HSET', epochs, 'clock', text(stamp))
end
return {'names', time, stamp, found, stamps_of}
