-- Deletes exchanges that were staged.
redis.call('UNLINK', unpack(KEYS))
return {'unstaged'}
