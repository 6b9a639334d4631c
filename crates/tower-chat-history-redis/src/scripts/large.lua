-- The limit of an answer, in bytes. It is the last argument of a script that reads exchanges, or '' if the answer
-- may have any size. If the answer is larger, the script returns `LARGE`, and is called again without limit.
local LIMIT, LARGE = tonumber(ARGV[#ARGV]), {'large'}

local function is_large(bytes)
  return LIMIT and bytes > LIMIT
end

-- Returns the size of texts. Some may be false.
local function size_of(texts)
  local size = 0
  for _, text in ipairs(texts) do
    size = size + (text and #text or 0)
  end
  return size
end

