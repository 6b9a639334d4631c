-- Names of functions end in a number. A changed function gets a new name, because replicas with an older library call
-- the older one until they are replaced. In a volatile function, each statement sees everything committed before it:
-- after a conversation's row is locked, the function reads the newest state, and no other call changes it. A stable
-- function sees one state throughout.
--
-- Every statement in the functions searches one or two indexes, for all values of the parameters, so a generic plan is
-- always right (`plan_cache_mode`). Sequential and bitmap scans are disabled, because a plan that was made when the
-- tables were small must also suit large tables (`enable_seqscan`, `enable_bitmapscan`). Both indexes of the table
-- `exchange` begin with the conversation. Each statement has an `order by`, which makes PostgreSQL use the right one:
-- with the other one, it would read the whole log. The search path contains only PostgreSQL's own operators. Each
-- argument of a call has the type that the function declares, including `null`, so PostgreSQL never selects a function
-- of the same name with other types that another role has created in the schema. The time to wait for a conversation's
-- row is limited, because the client that has locked it may be frozen (`lock_timeout`). All these settings cost about
-- three microseconds a call.

-- Loads a window. Returns a row for the conversation, whose `r_seq` is null, and a row for each exchange from `r_from`
-- on. If there is no conversation, the only row has the epoch, which belongs to the same state. `r_from` is null if
-- nothing has changed since the state that the caller knows. If the exchange `a_exchange` is in the log, it is the only
-- one, and `r_recorded` is true. If `a_added` is 1 and the log has only grown since the known state, the exchanges are
-- those that were added, and `r_added` is true. If the exchanges are a window, the conversation's row has the
-- compaction. `r_bytes` is the size of the log. The limits are `a_messages`, `a_text` for the bytes without media, and
-- `a_media`.
--
-- If a limit cuts the window off, a scan from the newest exchange ends at the first one that exceeds it. The newest
-- turn is always returned whole. Each row has the sums of all exchanges before it, so this check needs no addition. A
-- window that is cut off by a limit begins with a turn: if the limit is within a turn, the whole turn is left out.
create function @.load_1(
    a_key text, a_profile text, a_exchange text,
    a_incarnation uuid, a_version bigint, a_first bigint, a_compaction bigint, a_newest text,
    a_messages bigint, a_text bigint, a_media bigint, a_added int
) returns table (
    r_seq bigint, r_body text, r_recalled text, r_provenance text,
    r_incarnation uuid, r_first bigint, r_len bigint, r_from bigint, r_recorded boolean,
    r_compaction bigint, r_window bigint, r_state bytea, r_derived bytea,
    r_epoch bigint, r_bytes bigint, r_added boolean
) language plpgsql stable rows 1
    set search_path = pg_catalog set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off as $function$
declare
    s_conversation bigint; s_opening bigint; s_messages bigint; s_bytes bigint; s_media bigint; s_start bigint;
    s_to bigint;
begin
    select c.id, c.incarnation, c.first, c.len, c.opening, c.messages, c.bytes, c.media,
            k.version, k.window_start, k.state, k.derived, greatest(c.first, k.window_start)
        into s_conversation, r_incarnation, r_first, r_len, s_opening, s_messages, s_bytes, s_media,
            r_compaction, r_window, r_state, r_derived, s_start
        from @.conversation c left join @.compaction k on k.conversation = c.id and k.profile = a_profile
        where c.key = a_key;
    if not found then
        select g.newest into r_epoch from @.epoch g where g.one;
        return next;
        return;
    end if;
    if a_exchange is not null then
        select o.seq into r_from from (
            select e.seq, e.id from @.exchange e
            where e.conversation = s_conversation and e.id >= a_exchange order by e.id limit 1
        ) o where o.id = a_exchange;
    end if;
    if r_from is not null then
        r_recorded := true;
        s_to := r_from + 1;
    elsif r_incarnation = a_incarnation and r_len = a_version and r_first = a_first
        and coalesce(r_compaction, 0) = a_compaction and (a_newest is null or a_newest = (
            select e.id from @.exchange e
            where e.conversation = s_conversation and e.seq >= r_len - 1 order by e.seq limit 1
        )) then
        r_state := null;
        r_derived := null;
        return next;
        return;
    elsif a_added = 1 and r_incarnation = a_incarnation and r_len > a_version and r_first = a_first
        and a_version > r_first and coalesce(r_compaction, 0) = a_compaction and (
            select e.id = a_newest and s_messages - e.messages_before - e.messages <= a_messages
                and s_bytes - s_media - e.bytes_before + e.media_before - e.bytes + e.media <= a_text
                and s_media - e.media_before - e.media <= a_media
            from @.exchange e
            where e.conversation = s_conversation and e.seq >= a_version - 1 order by e.seq limit 1
        ) then
        r_added := true;
        r_state := null;
        r_derived := null;
        r_from := a_version;
        s_to := r_len;
    else
        -- If the exchanges from the start on do not exceed a limit, no later ones do.
        if not coalesce((
            select s_messages - e.messages_before <= a_messages
                and s_bytes - s_media - e.bytes_before + e.media_before <= a_text
                and s_media - e.media_before <= a_media
            from @.exchange e
            where e.conversation = s_conversation and e.seq >= s_start order by e.seq limit 1
        ), false) then
            select e.seq + 1 into r_from from @.exchange e
                where e.conversation = s_conversation and e.seq >= s_start and e.seq < s_opening
                    and (s_messages - e.messages_before > a_messages
                        or s_bytes - s_media - e.bytes_before + e.media_before > a_text
                        or s_media - e.media_before > a_media)
                order by e.seq desc limit 1;
        end if;
        -- Exchanges from the newest turn's opening on need no check.
        if r_from is null then
            r_from := s_start;
        else
            select coalesce(min(o.seq), r_from) into r_from from (
                select e.seq from @.exchange e
                where e.conversation = s_conversation and e.seq >= r_from and e.seq <= s_opening and e.continues is null
                order by e.seq limit 1
            ) o;
        end if;
        s_to := r_len;
    end if;
    if r_recorded is null then
        r_bytes := s_bytes - coalesce((
            select e.bytes_before from @.exchange e
            where r_first > 0 and e.conversation = s_conversation and e.seq >= r_first order by e.seq limit 1
        ), 0);
    end if;
    return next;
    return query select e.seq, e.body, e.recalled, e.provenance,
            null::uuid, null::bigint, null::bigint, null::bigint, null::boolean,
            null::bigint, null::bigint, null::bytea, null::bytea, null::bigint, null::bigint, null::boolean
        from @.exchange e where e.conversation = s_conversation and e.seq >= r_from and e.seq < s_to
        order by e.seq;
end
$function$;

-- Reads a page of the log: rows as in `load_1`, forward from a position to before `r_to`, as many exchanges as fit, but
-- at least one.
create function @.read_1(a_key text, a_from bigint, a_limit bigint, a_bytes bigint) returns table (
    r_seq bigint, r_body text, r_recalled text, r_provenance text,
    r_incarnation uuid, r_first bigint, r_len bigint, r_to bigint
) language plpgsql stable
    set search_path = pg_catalog set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off as $function$
declare
    s_conversation bigint; s_from bigint; s_before bigint; s_large bigint;
begin
    select c.id, c.incarnation, c.first, c.len, least(greatest(a_from, c.first), c.len)
        into s_conversation, r_incarnation, r_first, r_len, s_from
        from @.conversation c where c.key = a_key;
    if not found then
        return;
    end if;
    r_to := least(r_len, s_from + a_limit);
    if r_to > s_from then
        select e.bytes_before into s_before from @.exchange e
            where e.conversation = s_conversation and e.seq >= s_from order by e.seq limit 1;
        select e.seq into s_large from @.exchange e
            where e.conversation = s_conversation and e.seq > s_from and e.seq < r_to
                and e.bytes_before + e.bytes - s_before > a_bytes
            order by e.seq limit 1;
        r_to := least(r_to, s_large);
    end if;
    return next;
    return query select e.seq, e.body, e.recalled, e.provenance,
            null::uuid, null::bigint, null::bigint, null::bigint
        from @.exchange e where e.conversation = s_conversation and e.seq >= s_from and e.seq < r_to
        order by e.seq;
end
$function$;
