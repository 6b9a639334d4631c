-- Registers the conversation before `append.lua` creates it, on a server that has the keys of both. In place of the
-- stamp and the time of a registration, the arguments have the epoch since which the conversation must not have been
-- erased, and its id.
local registration = register_id(ARGV[19], ARGV[18], '')
if registration[1] == 'registered' then
  ARGV[18], ARGV[19] = text(registration[2]), text(registration[3])
elseif registration[1] == 'erased' then
  ARGV[18], ARGV[19] = 'erased', ''
else
  return registration
end

