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

-- Returns the keys that exist.
local function stored_keys(self)
  local keys = {meta, log, index, ids}
  if self.r > 0 then
    keys[#keys + 1] = recalled
  end
  if self.a > 0 then
    keys[#keys + 1] = attached
    keys[#keys + 1] = bodies
  end
  return keys
end

-- Demands the rights to `sweep`.
local function demand_sweep()
  demand('LRANGE', index, '0', '0')
  demand('HDEL', ids, '')
  demand('LTRIM', log, '0', '-1')
  demand('LTRIM', index, '0', '-1')
  demand('HSET', meta, 's', '')
  demand('HGET', recalled, '')
  demand('HDEL', recalled, '')
  demand('LSET', index, '0', '')
end

-- Removes the recalled messages of a position.
local function forget_recalled(self, seq)
  self.r = self.r - redis.call('HDEL', recalled, recalled_field(seq))
end

-- The largest size of recalled messages that one step of `sweep_erased` reads.
local ERASED_BYTES = 4194304

-- Removes recalled messages that were erased, at most at `budget` positions.
local function sweep_erased(self, budget)
  local from = math.max(self.w, self.f)
  self.w = math.min(from, self.u)
  local entries = {}
  if self.r == 0 then
    self.w = self.u
  elseif self.w < self.u and budget > 0 then
    entries = redis.call('LRANGE', index, self.w - self.b, math.min(self.w + budget, self.u) - 1 - self.b)
  end
  local size = 0
  for _, entry in ipairs(entries) do
    local seq = self.w
    local value = has_recalled(entry) and redis.call('HGET', recalled, recalled_field(seq))
    if value and erased(self, seq, value) then
      forget_recalled(self, seq)
      redis.call('LSET', index, seq - self.b, string.char(string.byte(entry) - 2) .. string.sub(entry, 2))
    end
    self.w = seq + 1
    size = size + (value and #value or 0)
    if size >= ERASED_BYTES then
      break
    end
  end
  if self.w >= self.u then
    self.e, self.w, self.u = 0, 0, 0
  end
end

-- Deletes elements that no longer belong to the log, at most `budget` of them, and recalled messages that were erased.
local function sweep(self, budget)
  local function forget(seq, from, to)
    local names = {}
    for at, entry in ipairs(redis.call('LRANGE', index, from, to)) do
      names[#names + 1] = string.sub(entry, ID)
      if has_recalled(entry) then
        forget_recalled(self, seq + at - 1)
      end
    end
    redis.call('HDEL', ids, unpack(names))
  end
  local tail = math.min(self.x, budget)
  if tail > 0 then
    forget(self.n + self.x - tail, -tail, -1)
    redis.call('LTRIM', log, 0, -tail - 1)
    redis.call('LTRIM', index, 0, -tail - 1)
    self.x = self.x - tail
  end
  local head = math.min(self.f - self.b, budget - tail)
  if head > 0 then
    forget(self.b, 0, head - 1)
    redis.call('LTRIM', log, head, -1)
    redis.call('LTRIM', index, head, -1)
    self.b = self.b + head
  end
  sweep_erased(self, budget - tail - math.max(head, 0))
  redis.call('HSET', meta, 's', packed(self))
end
