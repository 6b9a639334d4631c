-- The index.

-- Returns an entry's numbers, or nothing if the entry is invalid. The first one is 1 if the exchange opens a turn.
local function numbers(entry)
  local flags = entry and #entry >= ID and string.byte(entry)
  if flags and flags <= 3 then
    return flags % 2, select(2, struct.unpack(NUMBERS, entry))
  end
end

-- Returns the numbers of the exchange at a position of the log. The elements have been counted, so an invalid entry was
-- written by another program.
local function entry(self, seq)
  local opens, messages, bytes, openings = numbers(redis.call('LINDEX', index, seq - self.b))
  if not opens then
    damaged(seq)
  end
  return {opens = opens, messages = messages, bytes = bytes, openings = openings}
end

local function opens_turn(self, seq)
  return entry(self, seq).opens == 1
end

