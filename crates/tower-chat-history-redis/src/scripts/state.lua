-- What all scripts share: where a conversation is, and what state it is in.
--
-- meta   hash: s the state below; for each profile v: "version window rounds cleared covers call" and c: the cut; p the last
--        prune: the name it went by (16 bytes) and how many exchanges it removed
-- log    list: the exchanges' records
-- index  list: of each exchange its numbers, the call that stored it, and its id (see `NUMBERS`)
-- ids    hash: exchange id -> position, of every element of the lists
local meta, log, index, ids = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

-- The state is one field, which is there as a whole or not at all: the layout's number, which stands in its first byte
-- whatever the layout is; t 1 if the keys expire; i incarnation, which has its place in every layout too (see
-- `delete.lua`), and whose last 6 bytes are the time of the log's first append, in each life of that log (see
-- `append.lua`, `rewrite.lua`); n next position; f first position of the log; b position of the lists' first element; x
-- elements behind the log's end (a truncation left them); k number of changes of compactions; and how many messages,
-- bytes of them, and openings there are before n, also of what was pruned (an exchange without messages counts as one
-- message, here and in the index). After these stand the first 8 digits of their SHA-1: a state that somebody else
-- changed is damaged.
local LAYOUT, STATE, STATE_SIZE = 1, '>BBc16I6I6I6I6I6I6I8I6', 68

local function digits(numbers)
  return string.sub(redis.sha1hex(numbers), 1, 8)
end

-- An index entry's numbers: whether the exchange opens a turn; how many messages, bytes of them, and openings stand before it in
-- the log as it was before any prune; and its own messages and bytes. What two positions have between them is a difference, and
-- where a sum is reached is found by halving: nothing is walked through. Behind them stand the call that stored it (16 bytes)
-- and its id.
local NUMBERS, CALL, ID = '>BI6I8I6I4I6', 32, 48

-- Ends the script with the answer that the conversation is damaged, at a position. Only before anything is written.
local function damaged(seq)
  return error({err = 'DAMAGED ' .. string.format('%.0f', seq)})
end

-- The conversation, with the compaction's positions of a profile as `v`; nil if there is none.
local function find(profile)
  local m = redis.call('HMGET', meta, 's', 'v:' .. profile)
  local state = m[1]
  if not state then
    if redis.call('EXISTS', meta, log, index, ids) > 0 then
      damaged(0)
    end
    return nil
  end
  local layout = string.byte(state) or 0
  if layout > LAYOUT then
    error({err = 'NEWER ' .. layout .. ' ' .. LAYOUT})
  end
  if layout ~= LAYOUT or digits(string.sub(state, 1, STATE_SIZE)) ~= string.sub(state, STATE_SIZE + 1) then
    damaged(0)
  end
  local self = {v = m[2]}
  layout, self.t, self.i, self.n, self.f, self.b, self.x, self.k, self.messages, self.bytes, self.openings =
    struct.unpack(STATE, state)
  if self.b > self.f or self.f >= self.n then
    damaged(0)
  end
  return self
end

-- The state, as it is stored.
local function packed(self)
  local numbers = struct.pack(STATE, LAYOUT, self.t, self.i, self.n, self.f, self.b, self.x, self.k, self.messages,
    self.bytes, self.openings)
  return numbers .. digits(numbers)
end

-- Makes sure that the keys are whole: one that was evicted, or elements that somebody else took out, shift positions, and no
-- history is better than that.
local function whole(self)
  local held = self.n - self.b + self.x
  if redis.call('LLEN', log) ~= held or redis.call('LLEN', index) ~= held or redis.call('HLEN', ids) ~= held then
    damaged(self.f)
  end
end

-- The position of the element with that exchange id, which may be one that was removed and not swept yet; nil if there is none.
local function recorded(self, id)
  local at = redis.call('HGET', ids, id)
  if not at then
    return nil
  end
  at = string.find(at, '^%d+$') and tonumber(at)
  if not at or at < self.b or at >= self.n + self.x then
    damaged(self.f)
  end
  return at
end

-- What a stored compaction says: version, window, rounds, cleared, covers, call.
local function positions(v)
  return string.match(v, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%x+)$')
end
