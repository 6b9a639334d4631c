-- Ends the script if the user lacks the right to a command. Scripts call this before their first write, for all their
-- writes and for the reads between them: a script that the server stops after its first write damages the conversation.
local function demand(...)
  if not redis.acl_check_cmd(...) then
    -- The server refuses the command, and its ACL log then names it.
    redis.pcall(...)
    error({err = 'NOPERM the user lacks the right to a command of the script'})
  end
end

