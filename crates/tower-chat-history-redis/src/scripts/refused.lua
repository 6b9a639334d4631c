-- Refusals of a server that is full.

-- Converts the refusal of a first write into a reply. Nothing has been changed at this point.
local function refused_write(failure)
  local text = failure.err or ''
  if string.find(text, 'OOM', 1, true) then
    local info = redis.pcall('INFO', 'memory')
    return {'full', type(info) == 'table' and '' or info}
  end
  return failure
end

