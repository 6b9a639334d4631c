-- Counts what a conversation consists of.
local numbers = counted()
if not numbers then
  return {'absent'}
end
return {'counted', numbers}
