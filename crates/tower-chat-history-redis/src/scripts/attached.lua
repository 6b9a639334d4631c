-- Attachments. Each has a member in the sorted set and a field in the hash of bodies.
--
-- A member is the name, a space, and in hexadecimal digits the start and the end of the range (16 each) and the size of
-- the data (8). All scores are 0, so the members are in the order of names, then of starts: a space is before all
-- characters of names. A field is the beginning of the member, up to the start. Numbers are compared as digits, because
-- a range may have positions that a script cannot represent.
local SIZE, RANGE = 8, 24

local function digits_of(number)
  return string.format('%016x', number)
end

-- Returns the number of elements, or -1 if the key has another type.
local function elements(command, key)
  local count = redis.pcall(command, key)
  if type(count) == 'number' then
    return count
  elseif string.find(count.err or '', 'WRONGTYPE', 1, true) then
    return -1
  end
  return error(count)
end

-- Returns true if both keys are complete. If one was evicted, or another program removed elements, there are no
-- attachments, since they can be derived again.
local function intact(self)
  return elements('ZCARD', attached) == self.a and elements('HLEN', bodies) == self.a
end

