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
    s_conversation bigint; s_incarnation uuid;
begin
    select c.id, c.incarnation into s_conversation, s_incarnation from @.conversation c where c.key = a_key for update;
    if not found then
        return null;
    end if;
    if s_incarnation <> a_incarnation then
        return s_incarnation;
    end if;
    delete from @.attachment t where t.conversation = s_conversation;
    delete from @.exchange e where e.conversation = s_conversation;
    delete from @.compaction k where k.conversation = s_conversation;
    delete from @.conversation c where c.id = s_conversation;
    if not found or exists (select from @.exchange e where e.conversation = s_conversation)
        or exists (select from @.compaction k where k.conversation = s_conversation)
        or exists (select from @.attachment t where t.conversation = s_conversation) then
        raise exception using errcode = 'triggered_data_change_violation';
    end if;
    return null;
end
$function$;
