-- Beginning another incarnation, and what becomes of the compactions then.

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
