-- Replaces the labels. Arguments: incarnation, the version to replace, the name of this call, and the labels.
local incarnation, replaces, call, labels = unpack(ARGV)
local self = find('')
if not self then
  return {'gone'}
end
whole(self)
if self.i ~= incarnation then
  return {'gone'}
end
local stored = redis.call('HGET', meta, 'l') or '0 0 {}'
local version, by = string.match(stored, '^(%d+) (%x+) ')
if by == call then
  -- This call has run before, and its response was lost.
  return {'labeled', tonumber(version)}
end
if version ~= replaces then
  return {'kept', stored}
end
demand('HSET', meta, 'l', '')
local next_version = string.format('%.0f', tonumber(version) + 1)
local written = redis.pcall('HSET', meta, 'l', next_version .. ' ' .. call .. ' ' .. labels)
if type(written) == 'table' then
  return refused_write(written)
end
return {'labeled', tonumber(next_version)}
