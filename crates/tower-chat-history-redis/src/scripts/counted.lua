-- Counting what a conversation consists of, also if it is damaged.

-- Returns the number of elements, or 0 if the key has another type.
local function elements(command, key)
  local count = redis.pcall(command, key)
  if type(count) == 'number' then
    return count
  elseif string.find(count.err or '', 'WRONGTYPE', 1, true) then
    return 0
  end
  return error(count)
end

-- Returns the value of a field of the state's hash, or nil.
local function field(name)
  local value = redis.pcall('HGET', meta, name)
  return type(value) == 'string' and value or nil
end

-- Returns the size of the log in bytes of message JSON. It is 0 if the conversation is damaged.
local function bytes_of_log()
  local is_readable, bytes = pcall(function()
    local self = find('')
    return self.bytes - entry(self, self.f).bytes
  end)
  return is_readable and bytes or 0
end

-- Returns the number of compactions, and of those that have a summary or cannot be read.
local function compactions()
  local names, profiles, number, summaries = redis.pcall('HKEYS', meta), {}, 0, 0
  for _, name in ipairs(names.err and {} or names) do
    local profile = string.match(name, '^[vc]:(.*)$')
    if profile and not profiles[profile] then
      profiles[profile] = true
      number = number + 1
      local is_readable, record = pcall(cjson.decode, field('c:' .. profile) or '')
      local summary = is_readable and type(record) == 'table' and record.summary
      if not is_readable or summary and summary ~= cjson.null then
        summaries = summaries + 1
      end
    end
  end
  return number, summaries
end

-- Returns the numbers as a text, or nil if there is no key: exchanges, their bytes, their ids, compactions, summaries,
-- and 1 if there are labels.
local function counted()
  if redis.call('EXISTS', unpack(KEYS, 1, 6)) == 0 then
    return nil
  end
  local labels = string.match(field('l') or '', '^%d+ %x+ (.*)$')
  local number, summaries = compactions()
  local parts = {elements('LLEN', log), bytes_of_log(), elements('HLEN', ids), number, summaries,
    labels and labels ~= '{}' and 1 or 0}
  for at, part in ipairs(parts) do
    parts[at] = string.format('%.0f', math.max(part, 0))
  end
  return table.concat(parts, ' ')
end

