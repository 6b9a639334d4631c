-- Stores a compaction. Arguments: incarnation, the name of this call, and the compaction (see `compaction.lua`).
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
  return {'compacted', compaction_numbers(self.v), false}
end
if not replaces(self, 3) then
  return {'kept', kept(self, profile)}
end
local version, fields = compaction_fields(3, call)
demand('HSET', meta, 's', '')
local written = redis.pcall('HSET', meta, unpack(fields))
if type(written) == 'table' then
  return refused_write(written)
end
return {'compacted', version, false}
