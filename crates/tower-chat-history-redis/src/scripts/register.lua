-- Registers a conversation that a call is about to create. Arguments: the id, the epoch since which it must not have
-- been erased or '', and the age from which on a name may belong to no conversation or '' (see `register`).
return register(ARGV[1], ARGV[2], ARGV[3])
