-- The fence of a conversation: who registered the conversation before this stamp of the registry cannot create it. The
-- key also has the numbers of what the script with this stamp removed. It expires after an hour, when registrations
-- from before the fence are long out of date.
local gone = KEYS[7]
local GONE_MILLIS = 3600000

-- The time for which a registration is valid, in microseconds. The clocks of a Cluster's nodes may differ by this much.
local VALID_MICROS = 900000000

-- Returns the stamp of the fence, which is 0 if there is none, and the numbers.
local function fence()
  local stamp, numbers = string.match(redis.call('GET', gone) or '', '^(%d+) ?(.*)$')
  return tonumber(stamp or 0), numbers or ''
end

-- Returns true if a call that registered the conversation with this stamp, at this time in microseconds, must register
-- it again: the conversation may have been deleted since.
local function is_outdated(stamp, time)
  local now = redis.call('TIME')
  return fence() > stamp or math.abs(now[1] * 1000000 + now[2] - time) > VALID_MICROS
end

-- Raises the fence. Numbers of an earlier removal are forgotten.
local function raise_fence(stamp, numbers)
  local raised = fence()
  if stamp > raised or stamp == raised and numbers then
    local value = string.format('%.0f', stamp)
    redis.call('SET', gone, numbers and value .. ' ' .. numbers or value, 'PX', GONE_MILLIS)
  end
end

local function demand_fence()
  demand('SET', gone, '', 'PX', '1')
  demand('GET', gone)
end

