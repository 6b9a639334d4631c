-- Shared by scripts that write.

-- Converts the refusal of a first write into a reply. Nothing has been changed at this point.
local function refused_write(failure)
  local text = failure.err or ''
  if string.find(text, 'OOM', 1, true) then
    local info = redis.pcall('INFO', 'memory')
    return {'full', type(info) == 'table' and '' or info}
  end
  return failure
end

-- Demands the rights to `sweep`.
local function demand_sweep()
  demand('LRANGE', index, '0', '0')
  demand('HDEL', ids, '')
  demand('LTRIM', log, '0', '-1')
  demand('LTRIM', index, '0', '-1')
  demand('HSET', meta, 's', '')
end

-- Deletes elements that no longer belong to the log, at most `budget` of them.
local function sweep(self, budget)
  local function forget(from, to)
    local names = {}
    for _, entry in ipairs(redis.call('LRANGE', index, from, to)) do
      names[#names + 1] = string.sub(entry, ID)
    end
    redis.call('HDEL', ids, unpack(names))
  end
  local tail = math.min(self.x, budget)
  if tail > 0 then
    forget(-tail, -1)
    redis.call('LTRIM', log, 0, -tail - 1)
    redis.call('LTRIM', index, 0, -tail - 1)
    self.x = self.x - tail
  end
  local head = math.min(self.f - self.b, budget - tail)
  if head > 0 then
    forget(0, head - 1)
    redis.call('LTRIM', log, head, -1)
    redis.call('LTRIM', index, head, -1)
    self.b = self.b + head
  end
  redis.call('HSET', meta, 's', packed(self))
end
