#!lua flags=allow-oom
-- The line above, which must be the first one, is for scripts that only read. They are taken for ones that may write: a server
-- that is no master any more refuses them, and does not answer with what was so when it was one. A full one still runs them.

