-- Deleting, erasing and counting conversations, also those that lost some of their keys.

-- Returns the stamp of the registration under which the conversation was created, or nil if there is no state. The
-- stamp has the same place in every layout.
local function began()
  local state = redis.call('HGET', meta, 's')
  if state then
    return (struct.unpack('>I8', state, 19))
  end
end

-- Returns the size of the log in bytes of message JSON. It is 0 if it cannot be known any more.
local function bytes_of_log()
  local is_readable, bytes = pcall(function()
    local self = find('')
    return self.bytes - entry(self, self.f).bytes
  end)
  return is_readable and bytes or 0
end

-- Returns the number of compactions, and of those that have derived text.
local function compactions()
  local number, derived = 0, 0
  for _, name in ipairs(redis.call('HKEYS', meta)) do
    if string.find(name, '^v:') then
      number = number + 1
      local has_derived = select(3, compaction_numbers(redis.call('HGET', meta, name)))
      if has_derived == '1' then
        derived = derived + 1
      end
    end
  end
  return number, derived
end

-- Returns the numbers as a text, or nil if there is no key: exchanges, their bytes, their ids, compactions, summaries,
-- and 1 if there are labels.
local function counted()
  if redis.call('EXISTS', unpack(KEYS, 1, 6)) == 0 then
    return nil
  end

  local labels = string.match(redis.call('HGET', meta, 'l') or '', '^%d+ %x+ (.*)$')
  local number, summaries = compactions()
  local parts = {redis.call('LLEN', log), bytes_of_log(), redis.call('HLEN', ids), number, summaries,
    labels and labels ~= '{}' and 1 or 0}
  for at, part in ipairs(parts) do
    parts[at] = string.format('%.0f', math.max(part, 0))
  end
  return table.concat(parts, ' ')
end

-- Counts what a conversation consists of.
local function count()
  local numbers = counted()
  if not numbers then
    return {'absent'}
  end
  return {'counted', numbers}
end

-- Deletes a conversation that was registered before a stamp of the registry, and keeps calls that registered it before
-- from creating it. The argument is the stamp. A conversation that was registered later is left as it is: it began
-- during the deletion, or the registry lost its clock.
local function delete()
  local stamp = tonumber(ARGV[1])
  demand_fence()
  demand('UNLINK', unpack(KEYS, 1, 6))

  raise_fence(stamp)
  local later = began()
  if later and later >= stamp then
    return {'later', later}
  end
  redis.call('UNLINK', unpack(KEYS, 1, 6))
  return {'deleted'}
end

-- Deletes a conversation as `delete` does, and returns the numbers of what it removed, or nothing and the fence that it
-- found. The argument is the stamp.
local function erase()
  local stamp = tonumber(ARGV[1])
  demand_fence()
  demand('UNLINK', unpack(KEYS, 1, 6))

  local later = began()
  if not later or later < stamp then
    local numbers = counted()
    if numbers then
      raise_fence(stamp, numbers)
      redis.call('UNLINK', unpack(KEYS, 1, 6))
      return {'erased', numbers}
    end
  end

  -- This call may have run before, and its response was lost.
  local raised, numbers = fence()
  if raised == stamp and numbers ~= '' then
    return {'erased', numbers}
  end

  raise_fence(stamp)
  if later then
    return {'later', later}
  end
  return {'erased', '', raised}
end

-- Deletes a conversation if it has this revision, and returns the numbers of what it removed. Arguments: the stamp, the
-- incarnation, and where the log ends and begins.
local function erase_if()
  local stamp, incarnation, ends, begins = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
  local self = find('')
  if not self then
    -- This call may have run before, and its response was lost.
    local raised, numbers = fence()
    if raised == stamp and numbers ~= '' then
      return {'erased', numbers}
    end
    return {'other'}
  end
  whole(self)
  if self.i ~= incarnation or self.n ~= ends or self.f ~= begins then
    return {'other'}
  end

  demand_fence()
  demand('UNLINK', unpack(KEYS, 1, 6))
  local numbers = counted()
  raise_fence(stamp, numbers)
  redis.call('UNLINK', unpack(KEYS, 1, 6))
  return {'erased', numbers}
end

-- Keeps calls that registered a conversation before a stamp from creating it, if there is no such conversation. The
-- argument is the stamp.
local function fence_absent()
  if redis.call('EXISTS', unpack(KEYS, 1, 6)) > 0 then
    return {'exists'}
  end
  demand_fence()
  raise_fence(tonumber(ARGV[1]))
  return {'fenced'}
end

