-- Deletes a part of the elements that a truncation or a prune has cut off, and of the recalled messages that a prune
-- has erased. Returns the number of elements left to delete or to check.
local self = find('')
if not self then
  return {'swept', 0}
end
whole(self)
if self.x > 0 or self.b < self.f or self.u > 0 then
  demand_sweep()
  sweep(self, tonumber(ARGV[1]))
end
local checks = self.u > 0 and math.max(self.u - math.max(self.w, self.f), 0) or 0
return {'swept', self.x + self.f - self.b + checks}
