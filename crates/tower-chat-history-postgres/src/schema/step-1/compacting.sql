-- The notes at the top of `reading.sql` apply here too.

-- Stores a compaction. Returns a verdict: 0 stored, 1 another one is stored, 2 a position goes back, 3 the summary
-- covers the window, 4 beyond the log, 5 not an opening. The caller has locked the conversation's row. `a_opening` is
-- the position of an exchange that opens a turn and is about to be stored. `a_call` names the call, so that its
-- repetition finds the compaction that it stored. Only columns are compared: a body is never parsed here.
create function @.put_compaction_1(
    a_conversation bigint, a_first bigint, a_len bigint, a_opening bigint, a_call uuid,
    a_profile text, a_replaces bigint,
    a_window bigint, a_rounds bigint, a_cleared bigint, a_recalled_from bigint, a_reasoning_from bigint,
    a_encrypted_from bigint, a_covers bigint, a_body text,
    out r_verdict int, out r_version bigint, out r_cut bigint[], out r_body text
) language plpgsql volatile as $function$
declare
    s_window bigint; s_rounds bigint; s_cleared bigint; s_recalled_from bigint; s_reasoning_from bigint;
    s_encrypted_from bigint; s_covers bigint; s_call uuid;
begin
    select k.version, k.window_start, k.rounds_start, k.cleared_before, k.recalled_from, k.reasoning_from,
            k.encrypted_from, k.covers_to, k.call, k.body
        into r_version, s_window, s_rounds, s_cleared, s_recalled_from, s_reasoning_from, s_encrypted_from, s_covers,
            s_call, r_body
        from @.compaction k where k.conversation = a_conversation and k.profile = a_profile;
    if found then
        if s_call = a_call then
            -- This call has run before, and its response was lost.
            r_verdict := 0;
            r_body := null;
            return;
        end if;
        r_cut := array[
            s_window, s_rounds, s_cleared, s_recalled_from, s_reasoning_from, s_encrypted_from, s_covers];
    end if;
    -- The largest number has no successor. The client reports it as out of range.
    if coalesce(r_version, 0) <> a_replaces or r_version = 9223372036854775807 then
        r_verdict := 1;
        return;
    end if;
    if a_window < coalesce(s_window, 0) or a_rounds < coalesce(s_rounds, 0)
        or a_cleared < coalesce(s_cleared, 0) or a_recalled_from < coalesce(s_recalled_from, 0)
        or a_reasoning_from < coalesce(s_reasoning_from, 0)
        or a_encrypted_from < coalesce(s_encrypted_from, 0) or a_covers < coalesce(s_covers, 0) then
        r_verdict := 2;
        return;
    end if;
    if a_covers > a_window then
        r_verdict := 3;
        return;
    end if;
    if a_window >= a_len or a_rounds > a_len or a_cleared > a_len or a_recalled_from > a_len
        or a_reasoning_from > a_len or a_encrypted_from > a_len then
        r_verdict := 4;
        return;
    end if;
    -- A pruned position counts as an opening: the window then starts with the log.
    if a_window <> 0 and a_window >= a_first and a_window is distinct from a_opening and not exists (
        select from (
            select e.seq, e.continues from @.exchange e
            where e.conversation = a_conversation and e.seq >= a_window order by e.seq limit 1
        ) o where o.seq = a_window and o.continues is null
    ) then
        r_verdict := 5;
        return;
    end if;
    r_verdict := 0;
    r_version := a_replaces + 1;
    r_cut := null;
    r_body := null;
    insert into @.compaction as k
        (conversation, profile, version, window_start, rounds_start, cleared_before, recalled_from, reasoning_from,
            encrypted_from, covers_to, call, body)
        values (
            a_conversation, a_profile, r_version, a_window, a_rounds, a_cleared, a_recalled_from, a_reasoning_from,
            a_encrypted_from, a_covers, a_call, a_body)
        on conflict (conversation, profile) do update set
            version = excluded.version, window_start = excluded.window_start, rounds_start = excluded.rounds_start,
            cleared_before = excluded.cleared_before, recalled_from = excluded.recalled_from,
            reasoning_from = excluded.reasoning_from, encrypted_from = excluded.encrypted_from,
            covers_to = excluded.covers_to, call = excluded.call, body = excluded.body;
end
$function$;

-- Stores a compaction by itself. Returns the verdict of `put_compaction_1`, or null if the incarnation has ended.
create function @.compact_1(
    a_key text, a_incarnation uuid, a_call uuid, a_profile text, a_replaces bigint,
    a_window bigint, a_rounds bigint, a_cleared bigint, a_recalled_from bigint, a_reasoning_from bigint,
    a_encrypted_from bigint, a_covers bigint, a_body text,
    out r_verdict int, out r_version bigint, out r_cut bigint[], out r_body text
) language plpgsql volatile
    set search_path = pg_catalog set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set lock_timeout = '10s' as $function$
declare
    s_conversation bigint; s_first bigint; s_len bigint;
begin
    select c.id, c.first, c.len into s_conversation, s_first, s_len
        from @.conversation c where c.key = a_key and c.incarnation = a_incarnation for no key update;
    if found then
        select p.r_verdict, p.r_version, p.r_cut, p.r_body into r_verdict, r_version, r_cut, r_body
            from @.put_compaction_1(
                s_conversation, s_first, s_len, null::bigint, a_call,
                a_profile, a_replaces, a_window, a_rounds, a_cleared, a_recalled_from, a_reasoning_from,
                a_encrypted_from, a_covers, a_body) p;
    end if;
end
$function$;
