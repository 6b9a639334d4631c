-- Deleting by the registration under which a conversation was created.

-- Returns the stamp of that registration, or nil if there is no state. The stamp has the same place in every layout.
local function began()
  local state = redis.call('HGET', KEYS[1], 's')
  if state then
    return (struct.unpack('>I8', state, 19))
  end
end

