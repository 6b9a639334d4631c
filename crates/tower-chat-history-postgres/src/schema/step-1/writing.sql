-- The notes at the top of `reading.sql` apply here too.

-- Appends an exchange. Returns a verdict: 0 stored, 1 duplicate, 2 not as expected, 3 it continues an unknown position,
-- 4 erased after the epoch `a_since`. `r_incarnation` is null if there is no conversation. An append with a compaction
-- also returns the result of `put_compaction_1`.
--
-- `a_expect`: 0 absent, 1 exactly, 2 any revision of the incarnation, 3 anything. `a_since` is null if erasures do not
-- matter. `a_first` is the position of the exchange if the append creates the conversation. `a_at` is the exchange's
-- time. `a_call` is a random name of this call, so that its repetition finds the exchange that it stored. A new
-- incarnation is generated here, together with its row. If the conversation is deleted before a repetition arrives, the
-- repetition therefore begins another incarnation, and the deleted one stays ended. `a_patience` is the time to wait
-- for the conversation's row, in milliseconds from the beginning of the statement. If it is null, the function's
-- `lock_timeout` applies. A batch waits for less time, because it has locked the rows of other conversations.
--
-- An append that names an epoch and creates the conversation holds a shared lock until it is committed, and reads the
-- erasures after it got the lock. `bar_1` takes the same lock exclusively (see there). A batch does not wait for this
-- lock, because an erasure could then wait for the batch at the same time. It fails, and its calls are repeated one by
-- one.
create function @.append_1(
    a_patience int, a_key text, a_expect int, a_incarnation uuid, a_version bigint, a_since bigint, a_first bigint,
    a_call uuid, a_id text, a_at bigint, a_continues bigint, a_messages bigint, a_bytes bigint,
    a_media bigint, a_body text,
    a_recalled_first bigint, a_recalled text, a_provenance text, a_profile text, a_replaces bigint, a_window bigint,
    a_state bytea, a_derived bytea,
    out r_verdict int, out r_incarnation uuid, out r_first bigint, out r_len bigint, out r_seq bigint,
    out r_compacted boolean, out r_compaction bigint, out r_window bigint, out r_state bytea, out r_derived bytea
) language plpgsql volatile
    set search_path = pg_catalog set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set lock_timeout = '10s' as $function$
declare
    s_conversation bigint; s_messages bigint; s_bytes bigint; s_media bigint; s_updated bigint; s_call uuid;
    s_created boolean := false; s_attempts int := 0; s_limit text;
begin
    if a_patience is not null then
        s_limit := set_config('lock_timeout', greatest(
            1, a_patience - (extract(epoch from clock_timestamp() - statement_timestamp()) * 1000)::int)::text, true);
    end if;
    -- Usually the log is as expected and the exchange is new. This case needs two statements. If the id turns out to be
    -- in the log already, another statement restores the row.
    if a_profile is null and a_since is null then
        update @.conversation c set len = c.len + 1,
                opening = case when a_continues is null then c.len else c.opening end,
                messages = c.messages + a_messages, bytes = c.bytes + a_bytes, media = c.media + a_media,
                updated_at = greatest(c.updated_at, a_at), updated_before = c.updated_at
            where c.key = a_key and a_expect <> 0 and (a_expect = 3 or c.incarnation = a_incarnation)
                and (a_expect <> 1 or c.len = a_version) and (a_continues is null or a_continues < c.len)
            returning c.id, c.incarnation, c.first, c.len, c.len - 1, c.messages - a_messages, c.bytes - a_bytes,
                c.media - a_media, c.updated_before
            into s_conversation, r_incarnation, r_first, r_len, r_seq, s_messages, s_bytes, s_media, s_updated;
        if found then
            insert into @.exchange
                (conversation, seq, messages_before, bytes_before, media_before, messages, bytes, media, continues,
                    call, id, body, recalled_first, recalled, provenance)
                values (s_conversation, r_seq, s_messages, s_bytes, s_media, a_messages, a_bytes, a_media, a_continues,
                    a_call, a_id, a_body, a_recalled_first, a_recalled, a_provenance)
                on conflict (conversation, id) do nothing;
            if found then
                r_verdict := 0;
                return;
            end if;
            update @.conversation c set len = r_seq, messages = s_messages, bytes = s_bytes, media = s_media,
                updated_at = s_updated, opening = (
                    select e.seq from @.exchange e where e.conversation = s_conversation and e.continues is null
                    order by e.seq desc limit 1
                )
                where c.id = s_conversation;
        end if;
    end if;
    loop
        select c.id, c.incarnation, c.first, c.len, c.messages, c.bytes, c.media
            into s_conversation, r_incarnation, r_first, r_len, s_messages, s_bytes, s_media
            from @.conversation c where c.key = a_key for no key update;
        exit when found;
        r_len := 0;
        if a_expect in (1, 2) then
            r_verdict := 2;
            return;
        end if;
        if a_since is not null then
            if a_patience is null then
                perform pg_advisory_xact_lock_shared(
                    '@.epoch'::regclass::int, hashtext(split_part(a_key, '/', 1)) & 63);
            elsif not pg_try_advisory_xact_lock_shared(
                '@.epoch'::regclass::int, hashtext(split_part(a_key, '/', 1)) & 63) then
                raise exception using errcode = 'lock_not_available';
            end if;
            if @.erased_1(a_key, a_since) then
                r_verdict := 4;
                return;
            end if;
        end if;
        if a_continues is not null then
            r_verdict := 3;
            r_len := a_first;
            return;
        end if;
        -- Numbers are added to positions.
        if a_first >= 1::bigint << 61 then
            raise exception using errcode = 'numeric_value_out_of_range';
        end if;
        insert into @.conversation as c
            (key, incarnation, first, len, opening, messages, bytes, media, created_at, updated_at, updated_before)
            values (a_key, gen_random_uuid(), a_first, a_first + 1, a_first, a_first + a_messages, a_bytes, a_media,
                a_at, a_at, a_at)
            on conflict (key) do nothing returning c.id, c.incarnation into s_conversation, r_incarnation;
        if found then
            s_created := true;
            r_first := a_first; r_len := a_first; s_messages := a_first; s_bytes := 0; s_media := 0;
            exit;
        end if;
        -- Another first append has created the row at the same time. Try again with that row, unless it was
        -- deleted already.
        s_attempts := s_attempts + 1;
        if s_attempts > 100 then
            raise exception using errcode = 'serialization_failure';
        end if;
    end loop;
    if not s_created then
        select o.seq, o.call into r_seq, s_call from (
            select e.seq, e.id, e.call from @.exchange e
            where e.conversation = s_conversation and e.id >= a_id order by e.id limit 1
        ) o where o.id = a_id;
        if found and s_call = a_call then
            -- This call has run before, and its response was lost. The call's name tells if its compaction was stored.
            r_verdict := 0;
            if a_profile is not null then
                select k.call = a_call, k.version, k.window_start, k.state, k.derived
                    into r_compacted, r_compaction, r_window, r_state, r_derived
                    from @.compaction k where k.conversation = s_conversation and k.profile = a_profile;
                r_compacted := coalesce(r_compacted, false);
            end if;
            return;
        end if;
        if found then
            r_verdict := 1;
            return;
        end if;
        if a_since is not null and @.erased_1(a_key, a_since) then
            r_verdict := 4;
            return;
        end if;
        if a_expect = 0 or (a_expect in (1, 2) and r_incarnation <> a_incarnation)
            or (a_expect = 1 and r_len <> a_version) then
            r_verdict := 2;
            return;
        end if;
        if a_continues >= r_len then
            r_verdict := 3;
            return;
        end if;
    end if;
    r_seq := r_len;
    if a_profile is not null then
        if a_patience is null then
            -- If the table of compactions is locked, the exchange must not be delayed for long: after this time the
            -- client appends the exchange alone, while its caller still waits.
            s_limit := set_config('lock_timeout', '2s', true);
        end if;
        select p.r_compacted, p.r_compaction, p.r_window, p.r_state, p.r_derived
            into r_compacted, r_compaction, r_window, r_state, r_derived
            from @.put_compaction_1(
                s_conversation, a_call, a_profile, a_replaces, a_window, a_state, a_derived) p;
    end if;
    insert into @.exchange
        (conversation, seq, messages_before, bytes_before, media_before, messages, bytes, media, continues, call, id,
            body, recalled_first, recalled, provenance)
        values (s_conversation, r_seq, s_messages, s_bytes, s_media, a_messages, a_bytes, a_media, a_continues, a_call,
            a_id, a_body, a_recalled_first, a_recalled, a_provenance);
    if not s_created then
        update @.conversation c set len = c.len + 1,
                opening = case when a_continues is null then c.len else c.opening end,
                messages = c.messages + a_messages, bytes = c.bytes + a_bytes, media = c.media + a_media,
                updated_at = greatest(c.updated_at, a_at), updated_before = c.updated_at
            where c.id = s_conversation;
    end if;
    r_verdict := 0;
    r_len := r_len + 1;
end
$function$;

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
