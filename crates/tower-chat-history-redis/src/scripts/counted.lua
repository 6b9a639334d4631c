-- Counting what a conversation consists of, also if some of its keys were evicted.

-- Returns the size of the log in bytes of message JSON. It is 0 if it cannot be known any more.
local function bytes_of_log()
  local is_readable, bytes = pcall(function()
    local self = find('')
    return self.bytes - entry(self, self.f).bytes
  end)
  return is_readable and bytes or 0
end

-- Returns the number of compactions, and of those that have derived text.
local function compactions()
  local number, derived = 0, 0
  for _, name in ipairs(redis.call('HKEYS', meta)) do
    if string.find(name, '^v:') then
      number = number + 1
      local has_derived = select(3, compaction_numbers(redis.call('HGET', meta, name)))
      if has_derived == '1' then
        derived = derived + 1
      end
    end
  end
  return number, derived
end

-- Returns the numbers as a text, or nil if there is no key: exchanges, their bytes, their ids, compactions, summaries,
-- and 1 if there are labels.
local function counted()
  if redis.call('EXISTS', unpack(KEYS, 1, 6)) == 0 then
    return nil
  end
  local labels = string.match(redis.call('HGET', meta, 'l') or '', '^%d+ %x+ (.*)$')
  local number, summaries = compactions()
  local parts = {redis.call('LLEN', log), bytes_of_log(), redis.call('HLEN', ids), number, summaries,
    labels and labels ~= '{}' and 1 or 0}
  for at, part in ipairs(parts) do
    parts[at] = string.format('%.0f', math.max(part, 0))
  end
  return table.concat(parts, ' ')
end

