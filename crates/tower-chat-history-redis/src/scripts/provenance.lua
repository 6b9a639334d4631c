-- Provenances. A value is the record. An erasure removes the whole hash, so entries and values have no marks.

-- The largest number of fields of one command.
local MOST_FIELDS = 1000

-- Returns the provenances of `count` positions from `from` on, with false for each exchange that has none. Returns an
-- empty table if the log has none.
local function provenances_of(self, from, count)
  local values = {}
  if self.o == 0 then
    return values
  end
  for first = 1, count, MOST_FIELDS do
    local seqs = {}
    for at = first, math.min(first + MOST_FIELDS - 1, count) do
      seqs[#seqs + 1] = from + at - 1
    end
    for _, value in ipairs(redis.call('HMGET', provenances, unpack(seqs))) do
      values[#values + 1] = value
    end
  end
  return values
end

