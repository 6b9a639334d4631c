-- Shared by scripts that read or search the log.

-- Returns the recalled messages of a position whose entry says that there are some. Returns '' if they were erased.
local function recalled_at(self, seq)
  local value = redis.call('HGET', recalled, seq)
  return erased(self, seq, value) and '' or value
end

-- Returns the provenances of `count` positions from `from` on. Returns an empty table if none of them has one.
local function provenances_of(self, from, count)
  local values = {}
  if from + count <= self.o then
    return values
  end

  for at = 1, self.o - from do
    values[at] = ''
  end
  for _, value in ipairs(redis.call('LRANGE', provenances, math.max(from - self.o, 0), from + count - 1 - self.o)) do
    values[#values + 1] = value
  end
  return values
end

-- Returns provenances as one text with a line for each, or '' if there are none. The client parses one long text faster
-- than many short ones.
local function joined(made)
  return table.concat(made, '\n')
end

-- Returns the first position from `low` on, and before `high`, at which `is_so` is true. Returns `high` if there is
-- none.
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

-- Returns the position of an opening, from `low` on and before `high`, by the number of openings before it.
local function opening(self, low, high, number)
  return first_where(self, low, high, function(at) return at.openings > number end) - 1
end

-- Returns the earliest opening from which on the log fits, or its newest opening if none does. Returns nil if there is
-- no opening from `low` on.
local function fitting(self, low, fits)
  if self.openings == entry(self, low).openings then
    return nil
  end

  local first = first_where(self, low, self.n, fits)
  local number = self.openings - 1
  if first < self.n then
    local found = entry(self, first)
    if found.opens == 1 then
      return first
    end
    number = math.min(number, found.openings)
  end
  return opening(self, low, self.n, number)
end

