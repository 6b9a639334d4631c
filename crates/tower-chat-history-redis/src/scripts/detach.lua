-- Removing attachments.

-- Returns the members of the attachments to remove, by the digits of their start and end, or nil to remove all because
-- they are not complete. An invalid member is removed.
local function attachments_where(self, is_gone)
  if not intact(self) then
    return nil
  end
  local gone = {}
  for _, member in ipairs(redis.call('ZRANGE', attached, 0, -1)) do
    local numbers = string.match(member, '^%S+ (%x+)$') or ''
    if #numbers ~= 40 or is_gone(string.sub(numbers, 1, 16), string.sub(numbers, 17, 32)) then
      gone[#gone + 1] = member
    end
  end
  return gone
end

-- Demands the rights to `detach`.
local function demand_detach()
  demand('UNLINK', attached, bodies)
  demand('ZREM', attached, '')
  demand('HDEL', bodies, '')
end

-- Removes attachments. It does not store the state.
local function detach(self, gone)
  if not gone then
    redis.call('UNLINK', attached, bodies)
    self.a, self.g = 0, self.g + 1
    return
  end
  for first = 1, #gone, 1000 do
    local last, fields = math.min(first + 999, #gone), {}
    for at = first, last do
      fields[#fields + 1] = string.sub(gone[at], 1, -RANGE - 1)
    end
    redis.call('ZREM', attached, unpack(gone, first, last))
    redis.call('HDEL', bodies, unpack(fields))
  end
  if #gone > 0 then
    self.a, self.g = self.a - #gone, self.g + 1
  end
end

