-- The notes at the top of `reading.sql` apply here too.

-- Lists conversations in the order of their keys: the one with the key `a_exact`, which may be null, and then those
-- with a key between two others, of which there are at most `a_limit`. `r_bytes` is the size of the log.
create function @.list_1(a_exact text, a_after text, a_before text, a_limit bigint) returns table (
    r_key text, r_incarnation uuid, r_len bigint, r_first bigint, r_created_at bigint, r_updated_at bigint,
    r_bytes bigint, r_labels text, r_labels_version bigint
) language plpgsql stable
    set search_path = pg_catalog set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off as $function$
begin
    return query select o.key, o.incarnation, o.len, o.first, o.created_at, o.updated_at,
            o.bytes - coalesce((
                select e.bytes_before from @.exchange e
                where o.first > 0 and e.conversation = o.id and e.seq >= o.first order by e.seq limit 1
            ), 0),
            o.labels, o.labels_version
        from (
            (select c.* from @.conversation c where c.key = a_exact)
            union all
            (select c.* from @.conversation c where c.key > a_after and c.key < a_before order by c.key limit a_limit)
        ) o order by o.key;
end
$function$;

-- Replaces the labels of a conversation. Returns a verdict: 0 stored, 1 other labels are stored, null if the
-- incarnation has ended. `a_call` names the call, so that its repetition finds the labels that it stored.
create function @.set_labels_1(
    a_key text, a_incarnation uuid, a_replaces bigint, a_call uuid, a_labels text,
    out r_verdict int, out r_version bigint, out r_labels text
) language plpgsql volatile
    set search_path = pg_catalog set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set lock_timeout = '10s' as $function$
declare
    s_conversation bigint; s_call uuid;
begin
    select c.id, c.labels_version, c.labels_call, c.labels into s_conversation, r_version, s_call, r_labels
        from @.conversation c where c.key = a_key and c.incarnation = a_incarnation for no key update;
    if not found then
        return;
    end if;
    if s_call = a_call then
        -- This call has run before, and its response was lost.
        r_verdict := 0;
        return;
    end if;
    if r_version <> a_replaces then
        r_verdict := 1;
        return;
    end if;
    r_verdict := 0;
    r_version := r_version + 1;
    update @.conversation c set labels = a_labels, labels_version = r_version, labels_call = a_call
        where c.id = s_conversation;
end
$function$;
