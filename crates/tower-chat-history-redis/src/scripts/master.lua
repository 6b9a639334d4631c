#!lua flags=allow-oom
-- The line above must be the first one. It is for scripts that only read, and marks them as scripts that may write. A
-- server that is no longer a master refuses such a script and does not return stale data. A full server still runs it.

