-- Removes the beginning of a log: incarnation, what is to stay (kind, number), whether traces go, the new incarnation, the
-- number of changes of compactions that was seen, and the compactions that stay.
local incarnation, keep, number, traces, fresh, changes = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]
local self, wrong = find('')
if wrong then
  return wrong
end
if self and self.i == fresh then
  -- This very call was made before and its answer got lost.
  return {'pruned', self.i, self.n, self.f, 0}
end
if not self or self.i ~= incarnation then
  return {'gone'}
end

-- As `PruneScan` decides it.
local total, begins = after(entry(self, self.n - 1)), entry(self, self.f).openings
local first
if keep == 'messages' then
  first = fitting(self, self.f, total, function(at) return total.messages - at.messages <= number end)
elseif keep == 'turns' then
  if total.openings > begins then
    first = opening(self, self.f, self.n, math.max(total.openings - math.max(number, 1), begins))
  end
elseif number >= self.f then
  local high = math.min(number + 1, self.n)
  local openings = after(entry(self, high - 1)).openings
  if openings > begins then
    first = opening(self, self.f, high, openings - 1)
  end
end
first = first or self.f
local removed = first - self.f
local rewrites = traces == 'remove' and first > 0
if rewrites and self.k ~= tonumber(changes) then
  return {'again'}
end
if rewrites then
  begin_incarnation(self, fresh, 7)
end
if removed > 0 then
  -- A full server would refuse the one that sets a field, were it the first write.
  redis.call('HDEL', meta, '')
  redis.call('HSET', meta, 'f', first)
end
return {'pruned', self.i, self.n, first, removed}
