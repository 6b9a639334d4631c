-- Compactions. Each profile has three fields: v: its numbers (see `compaction_numbers`), c: the bytes that the writer
-- keeps, and d: the derived text, or '' if there is none.
--
-- A script takes a compaction as six arguments: profile, replaced version, start of the window, 1 if it has derived
-- text, the writer's bytes, and the derived text.

-- Returns true if the compaction in the arguments from an index on replaces the stored one.
local function replaces(self, from)
  local version = '0'
  if self and self.v then
    version = compaction_numbers(self.v)
  end
  return version == ARGV[from + 1]
end

-- Returns the version and the fields of the compaction in the arguments from an index on.
local function compaction_fields(from, call)
  local profile, version = ARGV[from], string.format('%.0f', tonumber(ARGV[from + 1]) + 1)
  local v = table.concat({version, ARGV[from + 2], ARGV[from + 3], call}, ' ')
  return version, {'v:' .. profile, v, 'c:' .. profile, ARGV[from + 4], 'd:' .. profile, ARGV[from + 5]}
end

-- Returns true if this call stored the profile's compaction.
local function stored_by(self, call)
  return self.v and select(4, compaction_numbers(self.v)) == call
end

-- Returns the stored compaction for the reply to a call that did not replace it.
local function kept(self, profile)
  if not self or not self.v then
    return nil
  end
  return self.v, unpack(redis.call('HMGET', meta, 'c:' .. profile, 'd:' .. profile))
end
