-- Deletes a part of the elements that a truncation or a prune has cut off, and returns the number of those left.
local self = find('')
if not self then
  return {'swept', 0}
end
whole(self)
if self.x > 0 or self.b < self.f then
  demand_sweep()
  sweep(self, tonumber(ARGV[1]))
end
return {'swept', self.x + self.f - self.b}
