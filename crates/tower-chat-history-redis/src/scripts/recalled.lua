-- Recalled messages. A value is the first cited position (-1 if another conversation is cited, nothing if nothing is
-- cited), a space, and the record.

-- Returns true if an index entry says that its exchange has recalled messages.
local function has_recalled(entry)
  local flags = string.byte(entry)
  return flags == 2 or flags == 3
end

-- Returns true if an erasure has removed the recalled messages of a position, which are not swept yet.
local function erased(self, seq, value)
  if seq >= self.u then
    return false
  end
  local cited = string.match(value, '^(%-?%d*) ')
  return cited ~= '' and tonumber(cited) < self.e
end

