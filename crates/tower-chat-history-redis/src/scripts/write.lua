-- Shared by scripts that write.

-- Demands the rights to `sweep`.
local function demand_sweep()
  demand('LRANGE', index, '0', '0')
  demand('HDEL', ids, '')
  demand('LTRIM', log, '0', '-1')
  demand('LTRIM', index, '0', '-1')
  demand('HSET', meta, 's', '')
  demand('HGET', recalled, '')
  demand('HDEL', recalled, '')
  demand('LTRIM', provenances, '0', '-1')
  demand('LSET', index, '0', '')
end

-- The largest size of recalled messages that one step of `sweep` reads to remove those that were erased.
local ERASED_BYTES = 4194304

-- Deletes elements that no longer belong to the log, at most `budget` of them, and recalled messages that were erased.
local function sweep(self, budget)
  local function forget_recalled(seq)
    self.r = self.r - redis.call('HDEL', recalled, seq)
  end
  local function forget(seq, from, to)
    local names = {}
    for at, entry in ipairs(redis.call('LRANGE', index, from, to)) do
      names[at] = string.sub(entry, ID)
      if has_recalled(entry) then
        forget_recalled(seq + at - 1)
      end
    end
    redis.call('HDEL', ids, unpack(names))
  end
  local tail = math.min(self.x, budget)
  if tail > 0 then
    forget(self.n + self.x - tail, -tail, -1)
    redis.call('LTRIM', log, 0, -tail - 1)
    redis.call('LTRIM', index, 0, -tail - 1)
    redis.call('LTRIM', provenances, 0, -tail - 1)
    self.x = self.x - tail
    self.o = math.min(self.o, self.n + self.x)
  end
  local head = math.max(math.min(self.f - self.b, budget - tail), 0)
  if head > 0 then
    forget(self.b, 0, head - 1)
    redis.call('LTRIM', log, head, -1)
    redis.call('LTRIM', index, head, -1)
    self.b = self.b + head
    if self.o < self.b then
      redis.call('LTRIM', provenances, self.b - self.o, -1)
      self.o = self.b
    end
  end

  if self.u > 0 then
    self.w = self.r == 0 and self.u or math.min(math.max(self.w, self.f), self.u)
    local first, checks, size = self.w - self.b, math.min(self.u - self.w, budget - tail - head), 0
    local entries = checks > 0 and redis.call('LRANGE', index, first, first + checks - 1) or {}
    for _, entry in ipairs(entries) do
      local seq = self.w
      local value = has_recalled(entry) and redis.call('HGET', recalled, seq)
      if value and erased(self, seq, value) then
        forget_recalled(seq)
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
  redis.call('HSET', meta, 's', packed(self))
end
