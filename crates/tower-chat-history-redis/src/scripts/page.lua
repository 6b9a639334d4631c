-- Reads a page of the log. Arguments: the first position, the largest number of exchanges, and of bytes of messages,
-- and the limit of the answer in bytes or ''. If the answer is larger than that, the script returns 'large'.
local limit, most_bytes, most_answered = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]) or math.huge
local self = find('')
if not self then
  return {'absent'}
end
whole(self)

local from = math.min(math.max(tonumber(ARGV[1]), self.f), self.n)
local last = math.min(from + limit, self.n)
local to, bytes_before, bytes, full, found = from, nil, 0, false, {}
while to < last and not full do
  local entries = redis.call('LRANGE', index, to - self.b, math.min(to + 512, last) - 1 - self.b)
  for _, entry in ipairs(entries) do
    local _, _, before, _, _, _, own = numbers(entry)
    bytes_before = bytes_before or before
    if to > from and before + own - bytes_before > most_bytes then
      full = true
      break
    end
    found[#found + 1] = entry
    bytes = before + own - bytes_before
    to = to + 1
  end
end

local values, made, size = {}, provenances_of(self, from, #found), 0
if self.r > 0 or #made > 0 then
  -- Recalled messages and provenances do not count against the limit, but their own size ends a page as well.
  for at, entry in ipairs(found) do
    local value = self.r > 0 and has_recalled(entry) and recalled_at(self, from + at - 1)
    size = size + (value and #value or 0) + (made[at] and #made[at] or 0)
    if at > 1 and size > most_bytes then
      to = from + at - 1
      break
    end
    values[#values + 1] = value or nil
  end
  for at = #found, to - from + 1, -1 do
    found[at], made[at] = nil, nil
  end
end

if bytes + size > most_answered then
  return {'large'}
end
local records = {}
if to > from then
  records = redis.call('LRANGE', log, from - self.b, to - 1 - self.b)
end
-- The form is that of a window (see `load.lua`).
return {'page', self.i, self.n, self.f, from, records, found, values, joined(made)}
