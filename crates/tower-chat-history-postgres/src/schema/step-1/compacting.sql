-- The notes at the top of `reading.sql` apply here too.

-- Stores a compaction if it replaces the stored version. Returns true and its version. Otherwise returns false and the
-- stored compaction, or nulls if there is none. The caller has locked the conversation's row. `a_call` names the call,
-- so that its repetition finds the compaction that it stored.
create function @.put_compaction_1(
    a_conversation bigint, a_call uuid, a_profile text, a_replaces bigint, a_window bigint, a_state bytea,
    a_derived bytea,
    out r_compacted boolean, out r_compaction bigint, out r_window bigint, out r_state bytea, out r_derived bytea
) language plpgsql volatile as $function$
declare
    s_call uuid;
begin
    select k.version, k.window_start, k.state, k.derived, k.call
        into r_compaction, r_window, r_state, r_derived, s_call
        from @.compaction k where k.conversation = a_conversation and k.profile = a_profile;
    if s_call = a_call then
        -- This call has run before, and its response was lost.
        r_compacted := true;
        r_state := null;
        r_derived := null;
        return;
    end if;
    if coalesce(r_compaction, 0) <> a_replaces then
        r_compacted := false;
        return;
    end if;
    r_compacted := true;
    r_compaction := a_replaces + 1;
    r_state := null;
    r_derived := null;
    insert into @.compaction as k (conversation, profile, version, window_start, call, state, derived)
        values (a_conversation, a_profile, r_compaction, a_window, a_call, a_state, a_derived)
        on conflict (conversation, profile) do update set
            version = excluded.version, window_start = excluded.window_start, call = excluded.call,
            state = excluded.state, derived = excluded.derived;
end
$function$;

-- Stores a compaction by itself. Returns the result of `put_compaction_1`, or nulls if the incarnation has ended.
create function @.compact_1(
    a_key text, a_incarnation uuid, a_call uuid, a_profile text, a_replaces bigint, a_window bigint, a_state bytea,
    a_derived bytea,
    out r_compacted boolean, out r_compaction bigint, out r_window bigint, out r_state bytea, out r_derived bytea
) language plpgsql volatile
    set search_path = pg_catalog set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set lock_timeout = '10s' as $function$
declare
    s_conversation bigint;
begin
    select c.id into s_conversation
        from @.conversation c where c.key = a_key and c.incarnation = a_incarnation for no key update;
    if found then
        select p.r_compacted, p.r_compaction, p.r_window, p.r_state, p.r_derived
            into r_compacted, r_compaction, r_window, r_state, r_derived
            from @.put_compaction_1(
                s_conversation, a_call, a_profile, a_replaces, a_window, a_state, a_derived) p;
    end if;
end
$function$;
