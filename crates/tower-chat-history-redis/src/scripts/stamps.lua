-- Taking a stamp, and recording an erasure.

-- The number of erasures that a slot remembers.
local MOST_ERASURES = 100000

-- Returns the epoch: the stamp of the last erasure.
local function epoch()
  return {'epoch', tonumber(redis.call('HGET', epochs, 'epoch') or 0)}
end

-- Returns a stamp, which is greater than those of all earlier registrations. The argument is a stamp that it must
-- exceed.
local function take_stamp()
  local stamp = next_stamp(tonumber(ARGV[1]))
  demand('HSET', epochs, 'clock', '')
  redis.call('HSET', epochs, 'clock', text(stamp))
  return {'stamp', stamp}
end

-- Records an erasure. Arguments: a stamp that its epoch must exceed, and the text of what is erased (see `digest_of`).
local function bar()
  local stamp = next_stamp(tonumber(ARGV[1]))
  demand('HSET', epochs, 'clock', '')
  demand('ZADD', erasures, '0', '')
  demand('ZCARD', erasures)
  demand('ZPOPMIN', erasures)

  redis.call('HSET', epochs, 'clock', text(stamp), 'epoch', text(stamp))
  redis.call('ZADD', erasures, text(stamp), digest_of(ARGV[2]))
  local most = redis.call('ZCARD', erasures) - MOST_ERASURES
  if most > 0 then
    local popped = redis.call('ZPOPMIN', erasures, most)
    redis.call('HSET', epochs, 'forgotten', popped[#popped])
  end
  return {'stamp', stamp}
end

