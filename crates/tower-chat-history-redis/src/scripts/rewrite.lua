-- Returns the incarnation in which a log continues: random bytes, followed by the bytes that identify the log.
local function next_life(self, fresh)
  return string.sub(fresh, 1, 10) .. string.sub(self.i, 11, 16)
end

-- Replaces all compactions by those in the arguments from an index on (profile, v, c, and so on), and begins an
-- incarnation. It does not store the state. The first write is one that a full server accepts, since this frees memory.
local function begin_incarnation(self, fresh, from)
  local old = {''}
  for _, field in ipairs(redis.call('HKEYS', meta)) do
    if string.find(field, '^[vc]:') then
      old[#old + 1] = field
    end
  end
  for first = 1, #old, 1000 do
    redis.call('HDEL', meta, unpack(old, first, math.min(first + 999, #old)))
  end
  for at = from, #ARGV, 3 do
    redis.call('HSET', meta, 'v:' .. ARGV[at], ARGV[at + 1], 'c:' .. ARGV[at], ARGV[at + 2])
  end
  self.i = next_life(self, fresh)
  self.k = self.k + 1
end
