-- Deleting by the registration under which a conversation was created.

-- Returns the stamp of that registration, or nil if there is none to read: the conversation is absent or damaged. The
-- stamp has the same place in every layout.
local function began()
  local state = redis.pcall('HGET', KEYS[1], 's')
  if type(state) == 'string' and #state >= 26 then
    return (struct.unpack('>I8', state, 19))
  end
end

