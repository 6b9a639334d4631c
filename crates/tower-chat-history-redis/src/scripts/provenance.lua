-- Provenances. An element of the list is the record, or '' if the exchange has none. An erasure removes the whole list.

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

