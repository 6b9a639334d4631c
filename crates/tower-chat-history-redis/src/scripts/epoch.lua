-- Returns the epoch: the stamp of the last erasure.
return {'epoch', tonumber(redis.call('HGET', epochs, 'epoch') or 0)}
