-- Removes attachments, then stores others. Arguments: incarnation, the number of attachments to remove, their fields,
-- and for each attachment to store: its field, the digits of its end and size, and its data.
local incarnation, put = ARGV[1], 3 + tonumber(ARGV[2])
local self = find('')
if not self then
  return {'gone'}
end
whole(self)
if self.i ~= incarnation then
  return {'gone'}
end
local next_digits = digits_of(self.n)
for at = put, #ARGV, 3 do
  if string.sub(ARGV[at + 1], 1, 16) > next_digits then
    return {'beyond', self.n}
  end
end

local complete = intact(self)
-- Returns the stored member with a field, or nil.
local function member_of(field)
  return complete and redis.call('ZRANGE', attached, '[' .. field, '(' .. field .. 'g', 'BYLEX', 'LIMIT', 0, 1)[1]
end
local gone, is_gone, new, is_new = {}, {}, {}, {}
for at = 3, put - 1 do
  local field = ARGV[at]
  if not is_gone[field] then
    is_gone[field] = true
    gone[#gone + 1] = member_of(field) or nil
  end
end
for at = put, #ARGV, 3 do
  local field = ARGV[at]
  if not is_new[field] and (is_gone[field] or not member_of(field)) then
    is_new[field] = true
    new[#new + 1] = at
  end
end
if #gone == 0 and #new == 0 then
  return {'attached', self.n}
end

local expires = self.t == 1 and redis.call('PEXPIRETIME', meta) or -1
demand('HDEL', meta, '')
demand('HSET', meta, 's', '')
demand_detach()
demand('ZADD', attached, '0', '')
demand('HSET', bodies, '', '')
if expires >= 0 then
  demand('PEXPIREAT', attached, expires)
  demand('PEXPIREAT', bodies, expires)
  demand_forget({unpack(KEYS, 1, 8)})
end

-- The first write is one that a full server refuses if attachments are to be stored. Otherwise it is one that a full
-- server accepts, since removals free memory.
if #new > 0 then
  local written = redis.pcall('HSET', meta, 's', packed(self))
  if type(written) == 'table' then
    return refused_write(written)
  end
else
  redis.call('HDEL', meta, '')
end
detach(self, complete and gone or nil)
for _, at in ipairs(new) do
  redis.call('ZADD', attached, 0, ARGV[at] .. ARGV[at + 1])
  redis.call('HSET', bodies, ARGV[at], ARGV[at + 2])
end
self.a = self.a + #new
self.g = self.g + 1
redis.call('HSET', meta, 's', packed(self))
if expires >= 0 then
  redis.call('PEXPIREAT', attached, expires)
  redis.call('PEXPIREAT', bodies, expires)
  forget_if_over(expires, {unpack(KEYS, 1, 8)})
end
return {'attached', self.n}
