-- The index.

-- Returns an entry's numbers. The first one is 1 if the exchange opens a turn.
local function numbers(entry)
  return string.byte(entry) % 2, select(2, struct.unpack(NUMBERS, entry))
end

-- Returns the numbers of the exchange at a position of the log.
local function entry(self, seq)
  local opens, messages, bytes, openings = numbers(redis.call('LINDEX', index, seq - self.b))
  return {opens = opens, messages = messages, bytes = bytes, openings = openings}
end

