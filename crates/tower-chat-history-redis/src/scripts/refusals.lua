-- Shared by all scripts that write: the refusals of a server.

-- Ends the script if the user lacks the right to a command. Scripts call this before their first write, for all their
-- writes and for the reads between them: a script that the server stops after its first write damages the conversation.
local function demand(...)
  if not redis.acl_check_cmd(...) then
    -- The server refuses the command, and its ACL log then names it.
    redis.pcall(...)
    error({err = 'NOPERM the user lacks the right to a command of the script'})
  end
end

-- Converts the refusal of a first write by a full server into a reply. Nothing has been changed at this point.
local function refused_write(failure)
  local text = failure.err or ''
  if string.find(text, 'OOM', 1, true) then
    local info = redis.pcall('INFO', 'memory')
    return {'full', type(info) == 'table' and '' or info}
  end
  return failure
end

