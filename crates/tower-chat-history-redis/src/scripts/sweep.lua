-- Physically removes a part of what a truncation or a prune left behind, and says how much is left.
local self = find('')
if not self then
  return {'swept', 0}
end
whole(self)
if self.x > 0 or self.b < self.f then
  sweep(self, tonumber(ARGV[1]))
end
return {'swept', self.x + self.f - self.b}
