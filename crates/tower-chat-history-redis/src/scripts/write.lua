-- Shared by scripts that write to a conversation: its compactions, its expiry, its fence, and the removal of what no
-- longer belongs to it.

-- Returns the state in its stored form.
local function packed(self)
  local numbers = struct.pack(STATE, LAYOUT, self.t, self.i, self.p, self.n, self.f, self.b, self.x,
    self.messages, self.bytes, self.media, self.openings, self.c, self.m)
  if self.r > 0 or self.u > 0 or self.o > 0 then
    numbers = numbers .. struct.pack(MORE, self.r, self.e or 0, self.w or 0, self.u, self.o)
  end
  return numbers
end

-- A script takes a compaction as six arguments: profile, replaced version, start of the window, 1 if it has derived
-- text, the writer's bytes, and the derived text.

-- Returns true if the compaction in the arguments from an index on replaces the stored one.
local function replaces(self, from)
  local version = '0'
  if self and self.v then
    version = compaction_numbers(self.v)
  end
  return version == ARGV[from + 1]
end

-- Returns the version and the fields of the compaction in the arguments from an index on.
local function compaction_fields(from, call)
  local profile, version = ARGV[from], string.format('%.0f', tonumber(ARGV[from + 1]) + 1)
  local v = table.concat({version, ARGV[from + 2], ARGV[from + 3], call}, ' ')
  return version, {'v:' .. profile, v, 'c:' .. profile, ARGV[from + 4], 'd:' .. profile, ARGV[from + 5]}
end

-- Returns true if this call stored the profile's compaction.
local function stored_by(self, call)
  return self.v and select(4, compaction_numbers(self.v)) == call
end

-- Returns the server's time in milliseconds.
local function milliseconds()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end

-- Demands the rights to `set_expiry`.
local function demand_expiry(keys, expires)
  for _, key in ipairs(keys) do
    if expires then
      demand('PEXPIREAT', key, expires)
    else
      demand('PERSIST', key)
    end
  end

  if expires then
    demand('TIME')
    demand('UNLINK', unpack(keys))
  end
end

-- Lets all keys expire at the same time, so that no key is missing before the others, or lets them never expire if
-- there is no time. Returns true if the time is over already. The keys are removed then.
--
-- The time can be over before the last key gets it. Redis 7.0 then removes this key at once, but keeps those that got
-- the time before until the end of the millisecond. Without some of its keys, the conversation would be damaged.
-- Servers whose time does not pass within a script never get here after such a write.
local function set_expiry(keys, expires)
  for _, key in ipairs(keys) do
    if expires then
      redis.call('PEXPIREAT', key, expires)
    else
      redis.call('PERSIST', key)
    end
  end

  local is_over = expires and milliseconds() >= tonumber(expires)
  if is_over then
    redis.call('UNLINK', unpack(keys))
  end
  return is_over
end

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

-- Demands the rights to `raise_fence`.
local function demand_fence()
  demand('SET', gone, '', 'PX', '1')
  demand('GET', gone)
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

  -- The elements that a truncation has cut off.
  local tail = math.min(self.x, budget)
  if tail > 0 then
    forget(self.n + self.x - tail, -tail, -1)
    redis.call('LTRIM', log, 0, -tail - 1)
    redis.call('LTRIM', index, 0, -tail - 1)
    redis.call('LTRIM', provenances, 0, -tail - 1)
    self.x = self.x - tail
    self.o = math.min(self.o, self.n + self.x)
  end

  -- Those that a prune has cut off.
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

  -- The recalled messages that a prune has erased.
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

