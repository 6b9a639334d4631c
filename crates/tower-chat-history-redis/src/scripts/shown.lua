-- Reading recalled messages.

-- Returns the value of a position whose entry says that there is one. Returns '' if it was erased.
local function recalled_at(self, seq)
  local value = redis.call('HGET', recalled, seq)
  return erased(self, seq, value) and '' or value
end

-- Returns the values of consecutive exchanges that have recalled messages, by their entries.
local function recalled_of(self, from, entries)
  local values = {}
  if self.r > 0 then
    for at, entry in ipairs(entries) do
      if has_recalled(entry) then
        values[#values + 1] = recalled_at(self, from + at - 1)
      end
    end
  end
  return values
end

