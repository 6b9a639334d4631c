-- Removes the end of a log, and all compactions. Arguments: the expectation (incarnation, version), the first position
-- to remove, the new incarnation, the stamp of the recorded deletion or '', the name of this call, and optionally the
-- compaction that takes the place of a removed one (see `compaction.lua`).
--
-- Removing the whole log is a deletion. It is recorded before, because the registry may be on another node.
local incarnation, version, len, fresh, stamp, call = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]
local KEEP = 7
local self = find(ARGV[KEEP] or '')
if not self then
  local raised, removed = fence()
  if stamp ~= '' and raised == tonumber(stamp) and removed ~= '' then
    -- This call has run before, and its response was lost.
    return {'emptied', tonumber(removed)}
  end
  return {'gone'}
end
whole(self)
if self.i == next_life(self, fresh) then
  -- This call has run before, and its response was lost.
  return {'truncated', self.i, self.n, self.f}
end
if self.i ~= incarnation or self.n ~= tonumber(version) then
  return {'refused', self.i, self.n, self.f}
end
if len >= self.n then
  return {'whole', self.i, self.n, self.f}
end
if len <= self.f then
  if stamp == '' then
    return {'record'}
  end
  demand_fence()
  demand('UNLINK', unpack(KEYS, 1, 6))
  -- A full server refuses a script whose first write needs memory.
  redis.call('UNLINK', unpack(KEYS, 1, 6))
  raise_fence(tonumber(stamp), string.format('%.0f', self.n - self.f))
  return {'emptied', self.n - self.f}
end
local before = entry(self, len)
demand('HDEL', meta, '')
demand_sweep()
remove_fields('vcd')
local fields = {}
if self.v and replaces(self, KEEP) then
  fields = select(2, compaction_fields(KEEP, call))
end
self.i = next_life(self, fresh)
self.x = self.x + self.n - len
if self.u > 0 then
  self.w, self.u = math.min(self.w, len), math.min(self.u, len)
end
self.n, self.messages, self.bytes, self.openings = len, before.messages, before.bytes, before.openings
redis.call('HSET', meta, 's', packed(self), unpack(fields))
return {'truncated', self.i, len, self.f}
