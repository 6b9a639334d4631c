-- Reading names, removing them, and giving them a new stamp.

-- Reads names in order. Arguments: the text after which they begin, the text before which they end, their largest
-- number, 1 to return a stamp that is greater than those of all earlier registrations, and a name to read as well or
-- ''.
local function read_names()
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
end

-- Removes names whose conversations do not exist and cannot be created under their registrations any more. Arguments:
-- for each name, the name and the stamp before which it must have been registered.
local function forget()
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
end

-- Gives names a new stamp, so that they count as old later. Arguments: for each name, the name and its stamp.
local function touch()
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
end

