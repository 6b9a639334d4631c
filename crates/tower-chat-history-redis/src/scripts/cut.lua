-- Removing the end or the beginning of a log.

-- Returns the incarnation in which a log continues: random bytes, followed by the bytes that identify the log.
local function next_life(self, fresh)
  return string.sub(fresh, 1, 10) .. string.sub(self.i, 11, 16)
end

-- Removes the fields whose names begin with a letter of these.
local function remove_fields(letters)
  local fields = {''}
  for _, field in ipairs(redis.call('HKEYS', meta)) do
    if string.find(field, '^[' .. letters .. ']:') then
      fields[#fields + 1] = field
    end
  end

  for first = 1, #fields, 1000 do
    redis.call('HDEL', meta, unpack(fields, first, math.min(first + 999, #fields)))
  end
end

-- Removes the end of a log, and all compactions. Arguments: the expectation (incarnation, version), the first position
-- to remove, the new incarnation, the stamp of the recorded deletion or '', the name of this call, and optionally the
-- compaction that takes the place of a removed one (see `write.lua`).
--
-- Removing the whole log is a deletion. It is recorded before, because the registry may be on another node.
local function truncate()
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
  self.n, self.messages, self.bytes = len, before.messages, before.bytes
  self.media, self.openings = before.media, before.openings
  redis.call('HSET', meta, 's', packed(self), unpack(fields))
  return {'truncated', self.i, len, self.f}
end

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

-- Returns the new first position of a log, or nil if nothing is to be removed. The same rules as in `PruneScan`.
local function first_kept(self, keep, number)
  local begins = entry(self, self.f).openings
  if keep == 'messages' then
    return fitting(self, self.f, function(at) return self.messages - at.messages <= number end)
  end

  if keep == 'turns' then
    if self.openings > begins then
      return opening(self, self.f, self.n, math.max(self.openings - math.max(number, 1), begins))
    end
    return nil
  end

  if number >= self.f then
    local high = math.min(number + 1, self.n)
    local openings = high < self.n and entry(self, high).openings or self.openings
    if openings > begins then
      return opening(self, self.f, high, openings - 1)
    end
  end
end

-- Removes the beginning of a log. Arguments: incarnation, the part to keep (kind, number), 'erase' to erase derived
-- data, and the new incarnation (also the name of this call).
local function prune()
  local incarnation, keep, number, derived, fresh = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
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

  local first = first_kept(self, keep, number) or self.f
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
end

-- Deletes a part of the elements that a truncation or a prune has cut off, and of the recalled messages that a prune
-- has erased. The argument is the largest number of elements of this part. Returns the number of elements left to
-- delete or to check.
local function sweep_part()
  local self = find('')
  if not self then
    return {'swept', 0}
  end
  whole(self)

  if self.x > 0 or self.b < self.f or self.u > 0 then
    demand_sweep()
    sweep(self, tonumber(ARGV[1]))
  end
  local checks = self.u > 0 and math.max(self.u - math.max(self.w, self.f), 0) or 0
  return {'swept', self.x + self.f - self.b + checks}
end

