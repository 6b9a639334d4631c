-- Replacing a compaction or the labels, if they are what the caller knows.

-- Stores a compaction. Arguments: incarnation, the name of this call, and the compaction (see `write.lua`).
local function compact()
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
end

-- Replaces the labels. Arguments: incarnation, the version to replace, the name of this call, and the labels.
local function label()
  local incarnation, expected, call, labels = unpack(ARGV)
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
  if version ~= expected then
    return {'kept', stored}
  end

  demand('HSET', meta, 'l', '')
  local next_version = string.format('%.0f', tonumber(version) + 1)
  local written = redis.pcall('HSET', meta, 'l', next_version .. ' ' .. call .. ' ' .. labels)
  if type(written) == 'table' then
    return refused_write(written)
  end
  return {'labeled', tonumber(next_version)}
end

