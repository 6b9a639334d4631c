-- Checks if a compaction may be stored in a log of `len` exchanges, as `Cut::check` does. `own` is the position of the
-- exchange that is being appended, which is not in the lists yet. `own_opens` is true if it opens a turn.
--
-- Returns 'store', 'keep', or nil and a reply.
local function judge(self, len, own, own_opens, replaces, cut)
  local version, window, rounds, cleared, shown, reasoning, encrypted, covers = '0', 0, 0, 0, 0, 0, 0, 0
  if self and self.v then
    version, window, rounds, cleared, shown, reasoning, encrypted, covers = positions(self.v)
    if not version then
      return nil, {'compaction'}
    end
    window, rounds, cleared = tonumber(window), tonumber(rounds), tonumber(cleared)
    shown, reasoning = tonumber(shown), tonumber(reasoning)
    encrypted, covers = tonumber(encrypted), tonumber(covers)
  end
  if version ~= replaces then
    return 'keep'
  end
  local back = cut.window < window or cut.rounds < rounds or cut.cleared < cleared or cut.recalled < shown
    or cut.reasoning < reasoning or cut.encrypted < encrypted or cut.covers < covers
  local beyond = cut.window >= len or cut.rounds > len or cut.cleared > len or cut.recalled > len
    or cut.reasoning > len or cut.encrypted > len
  local opens = true
  if not beyond and cut.window ~= 0 then
    if cut.window == own then
      opens = own_opens
    elseif self and cut.window >= self.f then
      opens = opens_turn(self, cut.window)
    end
  end
  if back or beyond or cut.covers_window or not opens then
    return nil, {'broken', window, rounds, cleared, shown, reasoning, encrypted, covers, len, opens and 1 or 0}
  end
  return 'store'
end

-- Reads the compaction in the arguments from an index on: profile, replaced version, positions, 1 if it covers its
-- window, record.
local function cut_at(from)
  return {
    v = ARGV[from + 1],
    window = tonumber(ARGV[from + 2]), rounds = tonumber(ARGV[from + 3]), cleared = tonumber(ARGV[from + 4]),
    recalled = tonumber(ARGV[from + 5]), reasoning = tonumber(ARGV[from + 6]), encrypted = tonumber(ARGV[from + 7]),
    covers = tonumber(ARGV[from + 8]), covers_window = ARGV[from + 9] == '1', c = ARGV[from + 10],
  }
end

-- Returns the fields of a compaction that replaces `version`.
local function cut_fields(profile, version, from, call, cut)
  local number = string.format('%.0f', tonumber(version) + 1)
  local v = table.concat({number, table.concat(ARGV, ' ', from + 2, from + 8), call}, ' ')
  return number, {'v:' .. profile, v, 'c:' .. profile, cut.c}
end

-- Returns true if this call stored the profile's compaction.
local function stored_by(self, call)
  return self.v and select(9, positions(self.v)) == call
end

-- Returns the stored compaction for the reply to a call that did not replace it.
local function kept(self, profile)
  return self.v, self.v and redis.call('HGET', meta, 'c:' .. profile)
end

-- Adds the stored compaction to the reply that a compaction is refused: the client checks if it can be read.
local function refused_cut(self, profile, wrong)
  if wrong[1] == 'broken' and self then
    wrong[11], wrong[12] = kept(self, profile)
  end
  return wrong
end
