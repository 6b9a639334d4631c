-- Deletes a part of the elements that a truncation or a prune has cut off, and of the recalled messages that a prune
-- has erased. Returns the number of elements left to delete or to check.
local self = find('')
if not self then
  return {'swept', 0}
end
whole(self)
if self.x > 0 or self.b < self.f or self.w < self.u then
  demand_sweep()
  sweep(self, tonumber(ARGV[1]))
end
return {'swept', self.x + self.f - self.b + math.max(self.u - math.max(self.w, self.f), 0)}
