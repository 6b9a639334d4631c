-- Registers a conversation that a call is about to create. Arguments: the id; the epoch since which it must not have
-- been erased, or ''; the age from which on a name may belong to no conversation, in microseconds, or ''; and the
-- prefixes that contain the id.
local id, since, age = ARGV[1], ARGV[2], ARGV[3]
local PREFIXES, STALE = 4, 32

if since ~= '' then
  local found = redis.call('HMGET', epochs, 'epoch', 'forgotten')
  local epoch, forgotten = tonumber(found[1] or 0), tonumber(found[2] or 0)
  since = tonumber(since)
  if since > epoch or since < forgotten then
    return {'erased'}
  elseif since < epoch then
    local digests = {digest_of('=' .. id), digest_of('/')}
    for at = PREFIXES, #ARGV do
      digests[#digests + 1] = digest_of(ARGV[at] .. '/')
    end
    for _, erased in ipairs(redis.call('ZMSCORE', erasures, unpack(digests))) do
      if erased and tonumber(erased) > since then
        return {'erased'}
      end
    end
  end
end

local stamp, time = next_stamp(0), now()
-- The oldest names, if there are many old ones. Their conversations may have expired.
local stale = {}
if age ~= '' then
  local before = '(' .. text(time - tonumber(age))
  if redis.call('ZCOUNT', registered, '-inf', before) >= STALE then
    stale = redis.call('ZRANGE', registered, '-inf', before, 'BYSCORE', 'LIMIT', 0, STALE, 'WITHSCORES')
  end
end
demand('HSET', epochs, 'clock', '')
demand('ZADD', names, '0', '')
demand('ZADD', registered, '0', '')
-- The first write is one that a full server refuses: nothing is written then.
local written = redis.pcall('HSET', epochs, 'clock', text(stamp))
if type(written) == 'table' then
  return refused_write(written)
end
redis.call('ZADD', registered, text(stamp), id)
redis.call('ZADD', names, 0, id)
return {'registered', stamp, time, stale}
