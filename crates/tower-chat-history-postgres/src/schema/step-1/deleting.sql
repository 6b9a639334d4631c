-- The notes at the top of `reading.sql` and `writing.sql` apply here too.

-- Deletes all rows of a conversation if it is in the given incarnation. A late statement may arrive long after the call
-- returned, when another incarnation has begun. Returns that other incarnation, or null if the conversation no longer
-- exists.
create function @.delete_1(a_key text, a_incarnation uuid) returns uuid
language plpgsql volatile
    set search_path = pg_catalog set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set lock_timeout = '10s' as $function$
declare
    s_conversation bigint; s_incarnation uuid; s_first bigint; s_len bigint; s_removed bigint;
begin
    select c.id, c.incarnation, c.first, c.len into s_conversation, s_incarnation, s_first, s_len
        from @.conversation c where c.key = a_key for update;
    if not found then
        return null;
    end if;
    if s_incarnation <> a_incarnation then
        return s_incarnation;
    end if;
    delete from @.attachment t where t.conversation = s_conversation;
    delete from @.exchange e where e.conversation = s_conversation;
    get diagnostics s_removed = row_count;
    delete from @.compaction k where k.conversation = s_conversation;
    delete from @.conversation c where c.id = s_conversation;
    -- The search for a remaining exchange passes all deleted ones. It is made only if another number was removed than
    -- the log has. Damaged counters may be too large for a subtraction of integers.
    if not found
        or s_removed <> s_len::numeric - s_first and exists (
            select from @.exchange e where e.conversation = s_conversation
        )
        or exists (select from @.compaction k where k.conversation = s_conversation)
        or exists (select from @.attachment t where t.conversation = s_conversation) then
        raise exception using errcode = 'triggered_data_change_violation';
    end if;
    return null;
end
$function$;
