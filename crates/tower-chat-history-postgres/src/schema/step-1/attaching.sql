-- The notes at the top of `reading.sql` and `writing.sql` apply here too.
--
-- Each key and each name is searched by itself, because a join may read all attachments of the conversation.

-- Removes the attachments with some keys, then stores others. An attachment whose key is still stored is left out.
-- Returns a verdict: 0 done, 1 a range ends beyond the log, 2 the conversation's counters are damaged (see `append_1`),
-- null if the incarnation has ended. The client has checked the sizes, and that no range is empty.
--
-- A repetition after a lost response does the same again.
create function @.attach_1(
    a_key text, a_incarnation uuid, a_removed_names text[], a_removed_starts bigint[],
    a_names text[], a_starts bigint[], a_ends bigint[], a_bodies bytea[],
    out r_verdict int, out r_len bigint
) language plpgsql volatile
    set search_path = pg_catalog set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set lock_timeout = '10s' as $function$
declare
    s_conversation bigint; s_whole boolean; s_name text; s_start bigint; s_end bigint; s_body bytea;
begin
    select c.id, c.len, c.first >= 0 and c.opening >= c.first and c.len > c.opening and c.version = c.len
            and c.messages >= c.len and c.messages < 1::bigint << 62 and c.bytes >= 0 and c.bytes < 1::bigint << 62
        into s_conversation, r_len, s_whole
        from @.conversation c where c.key = a_key and c.incarnation = a_incarnation for no key update;
    if not found then
        return;
    end if;
    if not s_whole then
        r_verdict := 2;
        return;
    end if;
    if exists (select from unnest(a_ends) u (range_end) where u.range_end > r_len) then
        r_verdict := 1;
        return;
    end if;
    for s_name, s_start in select * from unnest(a_removed_names, a_removed_starts) loop
        delete from @.attachment t
            where t.conversation = s_conversation and t.name = s_name and t.range_start = s_start;
        if not found and exists (
            select from @.attachment t
            where t.conversation = s_conversation and t.name = s_name and t.range_start = s_start
        ) then
            raise exception using errcode = 'triggered_data_change_violation';
        end if;
    end loop;
    for s_name, s_start, s_end, s_body in select * from unnest(a_names, a_starts, a_ends, a_bodies) loop
        insert into @.attachment (conversation, name, range_start, range_end, body)
            values (s_conversation, s_name, s_start, s_end, s_body)
            on conflict (conversation, name, range_start) do nothing;
        if not found and not exists (
            select from @.attachment t
            where t.conversation = s_conversation and t.name = s_name and t.range_start = s_start
        ) then
            raise exception using errcode = 'triggered_data_change_violation';
        end if;
    end loop;
    r_verdict := 0;
end
$function$;

-- Reads all attachments with some names, in the order of the names and ranges. Returns a row for the conversation, with
-- `r_number` null, and a row for each attachment before the first one that exceeds the limit. There, `r_number` is the
-- number of the attachment's name, counted from one. `r_more` is true if the limit left out any.
--
-- The running sum takes the size of each attachment from its row. Only the data that is returned is read.
create function @.attachments_1(a_key text, a_names text[], a_limit bigint) returns table (
    r_number bigint, r_start bigint, r_end bigint, r_body bytea,
    r_incarnation uuid, r_version bigint, r_first bigint, r_len bigint, r_opening bigint,
    r_messages bigint, r_bytes bigint, r_more boolean
) language plpgsql stable
    set search_path = pg_catalog set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off as $function$
declare
    s_conversation bigint;
begin
    select c.id, c.incarnation, c.version, c.first, c.len, c.opening, c.messages, c.bytes
        into s_conversation, r_incarnation, r_version, r_first, r_len, r_opening, r_messages, r_bytes
        from @.conversation c where c.key = a_key;
    if not found then
        return;
    end if;
    select coalesce(sum(octet_length(t.body)) > a_limit, false) into r_more
        from unnest(a_names) u (name) cross join lateral (
            select a.body from @.attachment a where a.conversation = s_conversation and a.name = u.name offset 0
        ) t;
    return next;
    return query select o.number, o.range_start, o.range_end, o.body,
            null::uuid, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint, null::boolean
        from (
            select u.number, t.range_start, t.range_end, t.body,
                sum(octet_length(t.body)) over (order by u.number, t.range_start) as total
            from unnest(a_names) with ordinality u (name, number) cross join lateral (
                select a.range_start, a.range_end, a.body from @.attachment a
                where a.conversation = s_conversation and a.name = u.name offset 0
            ) t
        ) o where o.total <= a_limit order by o.number, o.range_start;
end
$function$;
