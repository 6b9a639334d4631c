-- Stores a compaction: incarnation, this call's name, and the compaction (`cut_at`).
local incarnation, call, profile = ARGV[1], ARGV[2], ARGV[3]
local self, wrong = find(profile)
if wrong then
  return wrong
end
if not self or self.i ~= incarnation then
  return {'gone'}
end
if self.v and not positions(self.v) then
  return {'compaction'}
end
local kind, first, second = outcome(self, call)
if kind == 'cut' then
  -- This very call was made before and its answer got lost.
  return {kind, first, second}
end
local cut = cut_at(3)
local verdict
verdict, wrong = judge(self, self.n, -1, false, cut.v, cut)
if wrong then
  return wrong
end
if verdict == 'keep' then
  return {kind, first or false, second or false}
end
local number, stored = cut_fields(profile, cut.v, 3, call, cut)
local written = redis.pcall('HSET', meta, 'k', self.k + 1, unpack(stored))
if type(written) == 'table' then
  return refused_write(written)
end
return {'cut', number, false}
