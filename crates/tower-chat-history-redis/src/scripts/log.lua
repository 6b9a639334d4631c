-- What all scripts share: where a conversation is, what state it is in, and how it changes.
--
-- meta   hash: i incarnation, n next position, f first position of the log, b position of the lists' first element,
--        x elements behind the log's end (a truncation left them), k number of changes of compactions, t there if the keys
--        expire; for each profile v: "version window rounds cleared covers call" and c: the cut
-- log    list: the exchanges' records
-- index  list: of each exchange the numbers below, the call that stored it (16 bytes) and its id
-- ids    hash: exchange id -> position, of every element of the lists
local meta, log, index, ids = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

-- The conversation: nil if there is none. The second result is a reply, if keys are missing or do not fit together.
local function find(profile)
  local m = redis.call('HMGET', meta, 'i', 'n', 'f', 'b', 'x', 'k', 't', 'v:' .. profile, 'c:' .. profile)
  if not m[1] then
    if redis.call('EXISTS', meta, log, index, ids) > 0 then
      return nil, {'damaged', 0}
    end
    return nil
  end
  local self = {
    i = m[1], n = tonumber(m[2]), f = tonumber(m[3]), b = tonumber(m[4]), x = tonumber(m[5]), k = tonumber(m[6]),
    version = m[2], first = m[3], t = m[7], v = m[8], c = m[9],
  }
  if not (self.n and self.f and self.b and self.x and self.k) then
    return nil, {'damaged', 0}
  end
  -- A key that was evicted, or elements that somebody else took out, shift positions: no history is better than that.
  local held = self.n - self.b + self.x
  if redis.call('LLEN', log) ~= held or redis.call('LLEN', index) ~= held or redis.call('HLEN', ids) ~= held then
    return nil, {'damaged', self.f}
  end
  return self
end

-- What a stored compaction says: version, window, rounds, cleared, covers, call.
local function positions(v)
  return string.match(v, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%x+)$')
end

-- An index entry's numbers: whether the exchange opens a turn; how many messages, bytes of them, and openings stand before it in
-- the log as it was before any prune; and its own messages and bytes. What two positions have between them is a difference, and
-- where a sum is reached is found by halving: nothing is walked through.
local NUMBERS, CALL, ID = '>BI6I8I6I4I6', 32, 48

-- The numbers, or nothing if the entry is none.
local function numbers(entry)
  if entry and #entry >= ID then
    return struct.unpack(NUMBERS, entry)
  end
end

-- The numbers of the exchange at a position, which is in the log. `find` has counted the elements: an entry that is none was
-- written by somebody else.
local function entry(self, seq)
  local opens, messages, bytes, openings, own_messages, own_bytes = numbers(redis.call('LINDEX', index, seq - self.b))
  if not opens then
    error({err = 'DAMAGED ' .. string.format('%.0f', seq)})
  end
  return {
    opens = opens, messages = messages, bytes = bytes, openings = openings,
    own_messages = own_messages, own_bytes = own_bytes,
  }
end

local function opens_turn(self, seq)
  return entry(self, seq).opens == 1
end

-- What stands before the position after `last`.
local function after(last)
  return {
    messages = last.messages + last.own_messages, bytes = last.bytes + last.own_bytes, openings = last.openings + last.opens,
  }
end

-- The first position from `low` on, and before `high`, from which on it is so; `high` if it is never.
local function first_where(self, low, high, is_so)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_so(entry(self, middle)) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

-- The position of an opening, by how many stand before it. It lies from `low` on and before `high`.
local function opening(self, low, high, number)
  return first_where(self, low, high, function(at) return at.openings > number end) - 1
end

-- The earliest opening from which on the log fits, or its newest if none does; nothing if there is none from `low` on.
local function fitting(self, low, total, fits)
  local start = entry(self, low)
  if total.openings == start.openings then
    return nil
  end
  local first = first_where(self, low, self.n, fits)
  local number = total.openings - 1
  if first < self.n then
    number = math.min(number, entry(self, first).openings)
  end
  return opening(self, low, self.n, number)
end

-- A refused first write, as a reply. Nothing has been changed by then.
local function refused_write(failure)
  local text = failure.err or ''
  if string.find(text, 'OOM', 1, true) then
    local info = redis.pcall('INFO', 'memory')
    return {'full', type(info) == 'table' and '' or info}
  end
  return failure
end

-- Physically removes what does not belong to the log any more: `budget` elements at most.
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
  redis.call('HSET', meta, 'b', self.b, 'x', self.x)
end
