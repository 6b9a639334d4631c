-- Removes the beginning of a log. Arguments: incarnation, the part to keep (kind, number), 'erase' to erase derived
-- data, and the new incarnation (also the name of this call).

-- Returns true if recalled messages cite another conversation, in a log that was never pruned.
local function cites_others(self)
  local from = 0
  while self.r > 0 and from < self.n do
    for at, entry in ipairs(redis.call('LRANGE', index, from, math.min(from + 511, self.n - 1))) do
      local value = has_recalled(entry) and redis.call('HGET', recalled, from + at - 1)
      if value and string.sub(value, 1, 3) == '-1 ' then
        return true
      end
    end
    from = from + 512
  end
  return false
end

-- Removes the derived text of all compactions. Those that had some then begin at a position, where the log begins. Each
-- gets the next version, and no call's name: the call that stored it must not take this for its own. The first write is
-- one that a full server accepts, since it frees memory.
local function erase_derived(first)
  remove_fields('d')
  for _, field in ipairs(redis.call('HKEYS', meta)) do
    local profile = string.match(field, '^v:(.*)$')
    if profile then
      local version, window, has_derived = compaction_numbers(redis.call('HGET', meta, field))
      if version then
        version = string.format('%.0f', tonumber(version) + 1)
        window = has_derived == '1' and string.format('%.0f', first) or window
        redis.call('HSET', meta, field, table.concat({version, window, '0', '0'}, ' '), 'd:' .. profile, '')
      end
    end
  end
end

local incarnation, keep, number = ARGV[1], ARGV[2], tonumber(ARGV[3])
local derived, fresh = ARGV[4], ARGV[5]
local self = find('')
if not self then
  return {'gone'}
end
whole(self)
local last = redis.call('HGET', meta, 'p')
if last and string.sub(last, 1, 16) == fresh then
  -- This call has run before, and its response was lost.
  return {'pruned', self.i, self.n, self.f, tonumber(string.match(last, '^%d+$', 17)) or 0}
end
if self.i ~= incarnation then
  return {'gone'}
end

-- The same rules as in `PruneScan`.
local begins = entry(self, self.f).openings
local first
if keep == 'messages' then
  first = fitting(self, self.f, function(at) return self.messages - at.messages <= number end)
elseif keep == 'turns' then
  if self.openings > begins then
    first = opening(self, self.f, self.n, math.max(self.openings - math.max(number, 1), begins))
  end
elseif number >= self.f then
  local high = math.min(number + 1, self.n)
  local openings = high < self.n and entry(self, high).openings or self.openings
  if openings > begins then
    first = opening(self, self.f, high, openings - 1)
  end
end
first = first or self.f
local removed = first - self.f
local rewrites = derived == 'erase' and (first > 0 or cites_others(self))
if rewrites then
  demand('UNLINK', provenances)
  demand('HKEYS', meta)
  demand('HGET', meta, '')
end
if rewrites or removed > 0 then
  demand('HDEL', meta, '')
  demand_sweep()
end
if rewrites then
  erase_derived(first)
  self.i = next_life(self, fresh)
  redis.call('UNLINK', provenances)
  self.o = self.n + self.x
  if self.r > 0 then
    -- From now on no call returns recalled messages that cite a removed exchange or another conversation. They are
    -- removed in small steps.
    self.e, self.w, self.u = first, first, self.n
  end
end
if rewrites or removed > 0 then
  self.f = first
  -- A full server would refuse a first write that sets fields.
  redis.call('HDEL', meta, '')
  redis.call('HSET', meta, 's', packed(self), 'p', fresh .. string.format('%.0f', removed))
end
return {'pruned', self.i, self.n, first, removed}
