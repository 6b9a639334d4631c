-- Counting what a conversation consists of, also if it is damaged.

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

-- Returns the attachments by kind: a list of kinds and their numbers.
local function kinds()
  local list, numbers = {}, {}
  local function count(names)
    for _, name in ipairs(names) do
      local kind = string.match(name, '^([^/ ]+)') or 'other'
      if not numbers[kind] then
        list[#list + 1] = kind
      end
      numbers[kind] = (numbers[kind] or 0) + 1
    end
  end
  -- One of the two keys may have been evicted.
  if elements('ZCARD', attached) >= elements('HLEN', bodies) then
    count(elements('ZCARD', attached) > 0 and redis.call('ZRANGE', attached, 0, -1) or {})
  else
    count(redis.call('HKEYS', bodies))
  end
  for at = 1, #list do
    list[at] = list[at] .. ' ' .. numbers[list[at]]
  end
  return list
end

-- Returns the numbers as a text, or nil if there is no key: exchanges, their bytes, their ids, compactions, summaries,
-- 1 if there are labels, and the kinds of attachments.
local function counted()
  if redis.call('EXISTS', unpack(KEYS, 1, 8)) == 0 then
    return nil
  end
  local labels = string.match(field('l') or '', '^%d+ %x+ (.*)$')
  local number, summaries = compactions()
  local parts = kinds()
  local function put(at, number)
    table.insert(parts, at, string.format('%.0f', math.max(number, 0)))
  end
  put(1, elements('LLEN', log))
  put(2, bytes_of_log())
  put(3, elements('HLEN', ids))
  put(4, number)
  put(5, summaries)
  put(6, labels and labels ~= '{}' and 1 or 0)
  return table.concat(parts, ' ')
end

