-- Stores a compaction. Arguments: incarnation, the name of this call, and the compaction (`cut_at`).
local incarnation, call, profile = ARGV[1], ARGV[2], ARGV[3]
local self = find(profile)
if not self then
  return {'gone'}
end
whole(self)
if self.i ~= incarnation then
  return {'gone'}
end
if stored_by(self, call) then
  -- This call has run before, and its response was lost.
  return {'cut', positions(self.v), false}
end
local cut = cut_at(3)
local verdict, wrong = judge(self, self.n, -1, false, cut.v, cut)
if wrong then
  return refused_cut(self, profile, wrong)
end
if verdict == 'keep' then
  return {'kept', kept(self, profile)}
end
local number, stored = cut_fields(profile, cut.v, 3, call, cut)
self.k = self.k + 1
demand('HSET', meta, 's', '')
local written = redis.pcall('HSET', meta, 's', packed(self), unpack(stored))
if type(written) == 'table' then
  return refused_write(written)
end
return {'cut', number, false}
