-- Shared by all scripts of a conversation: its keys, its state, and its index.
--
-- - meta, a hash: s the state, see below; for each profile the compaction, see below; p the last prune: its call name
--   (16 bytes) and the number of exchanges that it removed; l the labels: "version call record"
-- - log, a list: the records of the exchanges
-- - index, a list: for each exchange its numbers, the name of the call that stored it, and its id (see `NUMBERS`)
-- - ids, a hash: exchange id -> position, for every element of the lists
-- - recalled, a hash: position -> recalled messages, for the elements that have some. A value is the first cited
--   position (-1 if another conversation is cited, nothing if nothing is cited), a space, and the record.
-- - provenances, a list: the provenances of the elements from a position on. An element is the record, or '' if the
--   exchange has none. An erasure removes the whole list.
--
-- A profile's compaction has three fields in meta: v: its numbers (see `compaction_numbers`), c: the bytes that the
-- writer keeps, and d: the derived text, or '' if there is none.
--
-- Scripts that create or remove conversations have one more key (see `write.lua`).
local meta, log, index, ids, recalled, provenances = unpack(KEYS, 1, 6)

-- The state is one field, so it is present as a whole or not at all. Its parts are: the number of the layout, which is
-- the first byte in every layout; t, 1 if the keys expire; i, the incarnation; p, the stamp of the registration under
-- which the conversation was created, which has the same place in every layout (see `erase.lua`) and remains if another
-- incarnation begins; n, the next position; f, the first position of the log; b, the position of the lists' first
-- element; x, the number of elements after the log's end, left by a truncation; the sums of messages, their bytes, how
-- many of these are media, and openings before n, including pruned ones (an exchange without messages counts as one
-- message, here and in the index); c, the time of the exchange that created the conversation; and m, the latest time of
-- all exchanges, both in milliseconds.
--
-- A second part follows if one of its numbers is not 0: r, the number of fields of the hash of recalled messages; e, w
-- and u, an erasure in progress (recalled messages that cite a position before e or another conversation are erased
-- from the positions before u, and have been removed from those before w); and o, the position at which the list of
-- provenances begins, which is after the last element if there is no such list.
--
-- Nothing but these scripts writes the keys. A server that evicts keys removes whole keys, which `find` and `whole`
-- notice.
local LAYOUT, STATE, STATE_SIZE, MORE = 1, '>BBc16I8I6I6I6I6I6I8I6I6I8I8', 92, '>I6I6I6I6I6'

-- The numbers of an index entry: 1 if the exchange opens a turn, plus 2 if it has recalled messages; the sums of
-- messages, their bytes, how many of these are media, and openings before it, counted from the log's beginning before
-- any prune; and its own messages, bytes and media. The size between two positions is a difference, and the position of
-- a sum is found by binary search. The name of the call that stored the exchange (16 bytes) and its id follow.
local NUMBERS, CALL, ID = '>BI6I8I6I6I4I6I6', 44, 60

-- Ends the script with the error that the conversation is damaged at a position. Call it only before the first write.
local function damaged(seq)
  return error({err = 'DAMAGED ' .. string.format('%.0f', seq)})
end

-- Returns the conversation, with the numbers of the profile's compaction as `v`, or nil if there is none.
local function find(profile)
  local m = redis.call('HMGET', meta, 's', 'v:' .. profile)
  local state = m[1]
  if not state then
    if redis.call('EXISTS', meta, log, index, ids, recalled, provenances) > 0 then
      damaged(0)
    end
    return nil
  end

  local layout = string.byte(state)
  if layout > LAYOUT then
    error({err = 'NEWER ' .. layout .. ' ' .. LAYOUT})
  end

  -- A table that is created with its fields does not grow. Only an erasure needs e and w.
  local self = {v = m[2], t = 0, i = '', p = 0, n = 0, f = 0, b = 0, x = 0, messages = 0, bytes = 0,
    media = 0, openings = 0, c = 0, m = 0, r = 0, u = 0, o = 0}
  layout, self.t, self.i, self.p, self.n, self.f, self.b, self.x, self.messages, self.bytes, self.media,
    self.openings, self.c, self.m = struct.unpack(STATE, state)
  if #state > STATE_SIZE then
    self.r, self.e, self.w, self.u, self.o = struct.unpack(MORE, state, STATE_SIZE + 1)
  end
  return self
end

-- Checks that no key was evicted. Otherwise a wrong history would be returned.
local function whole(self)
  local held = self.n - self.b + self.x
  if redis.call('LLEN', log) ~= held or redis.call('LLEN', index) ~= held or redis.call('HLEN', ids) ~= held then
    damaged(self.f)
  end

  if self.r > 0 and redis.call('HLEN', recalled) ~= self.r
    or self.o < self.n + self.x and redis.call('LLEN', provenances) ~= self.n + self.x - self.o then
    damaged(self.f)
  end
end

-- Returns the position of the element with an exchange id, or nil. The exchange may be removed but not swept yet.
local function recorded(id)
  return tonumber(redis.call('HGET', ids, id))
end

-- Returns an entry's numbers. The first one is 1 if the exchange opens a turn.
local function numbers(entry)
  return string.byte(entry) % 2, select(2, struct.unpack(NUMBERS, entry))
end

-- Returns the numbers of the exchange at a position of the log.
local function entry(self, seq)
  local opens, messages, bytes, media, openings = numbers(redis.call('LINDEX', index, seq - self.b))
  return {opens = opens, messages = messages, bytes = bytes, media = media, openings = openings}
end

-- Returns true if an index entry says that its exchange has recalled messages.
local function has_recalled(entry)
  local flags = string.byte(entry)
  return flags == 2 or flags == 3
end

-- Returns true if an erasure has removed the recalled messages of a position, which are not swept yet.
local function erased(self, seq, value)
  if seq >= self.u then
    return false
  end

  local cited = string.match(value, '^(%-?%d*) ')
  return cited ~= '' and tonumber(cited) < self.e
end

-- Returns the numbers of a stored compaction, or nil if they cannot be read: its version, the start of its window, 1 if
-- it has derived text, and the name of the call that stored it.
local function compaction_numbers(v)
  return string.match(v, '^(%d+) (%d+) ([01]) (%x+)$')
end

-- Returns the three fields of the stored compaction, or nil if there is none.
local function kept(self, profile)
  if not self or not self.v then
    return nil
  end
  return self.v, unpack(redis.call('HMGET', meta, 'c:' .. profile, 'd:' .. profile))
end

