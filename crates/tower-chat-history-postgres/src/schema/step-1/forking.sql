-- The notes at the top of `reading.sql` apply here too.

-- Copies the exchanges before the position `a_before` into a new conversation. Returns a verdict: 0 done, 1 the copy
-- exists, 2 the copy was erased after the epoch `a_since`, or the incarnation of the log has ended. With the first two,
-- it also returns the revision of the copy, or nulls if there is nothing to copy.
--
-- The caller chooses the incarnation of the copy. If the copy exists in this incarnation, an earlier attempt has made
-- it. A copy is created as `append_1` creates a conversation, with the same lock (see there).
--
-- One statement copies, so it sees one state of the log. The copied rows have the sums of the original ones, because
-- both logs begin at the same position.
--
-- The lock of the log's row lets appends pass. Whatever removes exchanges waits for the fork. Otherwise an erasure
-- could remove the log and find nothing left, and the copy would appear afterwards.
create function @.fork_1(
    a_key text, a_incarnation uuid, a_to text, a_to_incarnation uuid, a_before bigint, a_since bigint, a_at bigint,
    a_labels text, a_profile text, a_window bigint, a_state bytea, a_derived bytea,
    out r_verdict int, out r_incarnation uuid, out r_first bigint, out r_len bigint
) language plpgsql volatile
    set search_path = pg_catalog set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set lock_timeout = '10s' as $function$
declare
    s_attempts int := 0;
begin
    loop
        select c.incarnation, c.first, c.len into r_incarnation, r_first, r_len
            from @.conversation c where c.key = a_to;
        if found then
            r_verdict := case when r_incarnation = a_to_incarnation then 0 else 1 end;
            return;
        end if;
        if a_since is not null then
            perform pg_advisory_xact_lock_shared(
                '@.epoch'::regclass::int, hashtext(split_part(a_to, '/', 1)) & 63);
            if @.erased_1(a_to, a_since) then
                r_verdict := 2;
                return;
            end if;
        end if;
        select c.first into r_first
            from @.conversation c where c.key = a_key and c.incarnation = a_incarnation for key share;
        if not found then
            r_verdict := 2;
            return;
        end if;
        if a_before <= r_first then
            r_verdict := 0;
            return;
        end if;
        with log as materialized (
            select c.id, c.first, o.seq + 1 as len, o.messages_before + o.messages as messages,
                    o.bytes_before + o.bytes as bytes, o.media_before + o.media as media
                from @.conversation c cross join lateral (
                    select e.seq, e.messages_before, e.messages, e.bytes_before, e.bytes, e.media_before, e.media
                    from @.exchange e
                    where e.conversation = c.id and e.seq >= c.first and e.seq < a_before order by e.seq desc limit 1
                ) o
                where c.key = a_key and c.incarnation = a_incarnation
        ), copy as (
            insert into @.conversation as c
                (key, incarnation, first, len, opening, messages, bytes, media, created_at, updated_at,
                    updated_before, labels_version, labels)
                select a_to, a_to_incarnation, l.first, l.len, (
                        select e.seq from @.exchange e
                        where e.conversation = l.id and e.seq < l.len and e.continues is null
                        order by e.seq desc limit 1
                    ), l.messages, l.bytes, l.media, a_at, a_at, a_at,
                    case when a_labels is null then 0 else 1 end, a_labels
                from log l
                on conflict (key) do nothing returning c.id, c.first, c.len
        ), exchanges as (
            insert into @.exchange
                (conversation, seq, messages_before, bytes_before, media_before, messages, bytes, media, continues,
                    call, id, body, recalled_first, recalled, provenance)
                select k.id, o.seq, o.messages_before, o.bytes_before, o.media_before, o.messages, o.bytes, o.media,
                    o.continues, o.call, o.id, o.body,
                    case when o.recalled_first < l.first then null else o.recalled_first end,
                    case when o.recalled_first < l.first then null else o.recalled end, o.provenance
                from copy k cross join log l cross join lateral (
                    select e.* from @.exchange e
                    where e.conversation = l.id and e.seq >= l.first and e.seq < l.len order by e.seq
                ) o
        ), compaction as (
            insert into @.compaction (conversation, profile, version, window_start, call, state, derived)
                select k.id, a_profile, 1, a_window, gen_random_uuid(), a_state, a_derived
                from copy k where a_profile is not null
        )
        select a_to_incarnation, k.first, k.len into r_incarnation, r_first, r_len from copy k;
        if found then
            r_verdict := 0;
            return;
        end if;
        -- Another call has created the copy at the same time, or has removed or changed the log. Try again, and find
        -- out which.
        s_attempts := s_attempts + 1;
        if s_attempts > 100 then
            raise exception using errcode = 'serialization_failure';
        end if;
    end loop;
end
$function$;
