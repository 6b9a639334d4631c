-- Reads a part of the attachments with some names. Arguments: the incarnation and the number of changes of attachments
-- at the first step, or '' for the first step; the member after which to continue, or ''; the limit in bytes; the
-- largest size of a reply; the names; and the limit of `large.lua`.
local incarnation, changes, after, limit, most = unpack(ARGV, 1, 5)
limit, most = tonumber(limit), tonumber(most)
local NAMES, BATCH, MOST_MEMBERS = 6, 250, 2000
local self = find('')
if not self then
  return {incarnation == '' and 'absent' or 'changed'}
end
whole(self)
if incarnation ~= '' and (self.i ~= incarnation or self.g ~= tonumber(changes)) then
  return {'changed'}
end

-- `rest` says if attachments remain: 'none', or 'more' beyond the limit, or 'next' for another step.
local members, data, size, at, rest = {}, {}, 0, NAMES, 'none'
local last = intact(self) and #ARGV - 1 or 0
while at <= last and rest == 'none' do
  local name = ARGV[at]
  local from = after ~= '' and '(' .. after or '[' .. name .. ' '
  local found = redis.call('ZRANGE', attached, from, '(' .. name .. '!', 'BYLEX', 'LIMIT', 0, BATCH)
  for _, member in ipairs(found) do
    local bytes = tonumber(string.sub(member, -SIZE), 16)
    if not bytes then
      damaged(self.f)
    elseif size + bytes > limit then
      rest = 'more'
      break
    elseif #members > 0 and (size + bytes > most or #members >= MOST_MEMBERS) then
      rest = 'next'
      break
    elseif is_large(size + bytes) then
      return LARGE
    end
    local body = redis.call('HGET', bodies, string.sub(member, 1, -RANGE - 1))
    if not body or #body ~= bytes then
      damaged(self.f)
    end
    members[#members + 1], data[#data + 1] = member, body
    size, after = size + bytes, member
  end
  if rest == 'none' and #found < BATCH then
    at, after = at + 1, ''
  end
end
return {'attachments', self.i, self.n, self.f, self.g, rest, at - NAMES, after, members, data}
