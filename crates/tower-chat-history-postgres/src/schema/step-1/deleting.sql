-- The notes at the top of `reading.sql` apply here too.

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
    select c.id, c.incarnation into s_conversation, s_incarnation
        from @.conversation c where c.key = a_key for update;
    if not found then
        return null;
    end if;
    if s_incarnation <> a_incarnation then
        return s_incarnation;
    end if;
    delete from @.exchange e where e.conversation = s_conversation;
    delete from @.compaction k where k.conversation = s_conversation;
    delete from @.conversation c where c.id = s_conversation;
    return null;
end
$function$;

-- Records the deletion of a conversation, given by its key, or the erasure of all conversations under a prefix, given
-- by its text form with `/` after it. Returns the incarnation of the conversation with this key, or null if there is
-- none.
--
-- An append that creates a conversation may have read the erasures before this one is committed, and may be committed
-- after the conversations to erase were listed. Its conversation would stay. The two therefore exclude each other by an
-- advisory lock: appends share it, and do not wait for each other. There are 64 such locks, by a hash of the first
-- part, so that an erasure seldom delays the appends of another tenant. The table's number makes them different in each
-- schema.
--
-- No deadlock is possible: a call takes these locks in their order, and before it locks rows.
--
-- Erasures happen one after the other, because each updates the only row of the table `epoch`. Their epochs are
-- therefore committed in order. The table `erasure` keeps the newest 100,000 rows.
create function @.bar_1(a_erased text) returns uuid language plpgsql volatile
    set search_path = pg_catalog set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set lock_timeout = '10s' as $function$
declare
    s_digest bytea := sha256(convert_to(a_erased, 'UTF8'));
    s_epoch bigint; s_forgotten bigint; s_kept bigint; s_incarnation uuid;
begin
    if a_erased = '/' then
        for s_lock in 0..63 loop
            perform pg_advisory_xact_lock('@.epoch'::regclass::int, s_lock);
        end loop;
    else
        perform pg_advisory_xact_lock('@.epoch'::regclass::int, hashtext(split_part(a_erased, '/', 1)) & 63);
    end if;
    select g.newest + 1, g.forgotten, g.kept into s_epoch, s_forgotten, s_kept
        from @.epoch g where g.one for no key update;
    update @.erasure x set epoch = s_epoch where x.erased = s_digest;
    if not found then
        insert into @.erasure (erased, epoch) values (s_digest, s_epoch);
        s_kept := s_kept + 1;
    end if;
    if s_kept > 100000 then
        delete from @.erasure x where x.epoch = (select o.epoch from @.erasure o order by o.epoch limit 1)
            returning x.epoch into s_forgotten;
        s_kept := s_kept - 1;
    end if;
    update @.epoch g set newest = s_epoch, forgotten = s_forgotten, kept = s_kept where g.one;
    select c.incarnation into s_incarnation from @.conversation c where c.key = a_erased;
    return s_incarnation;
end
$function$;

-- Returns true if a conversation was erased after an epoch, or if that is not known any more. An epoch that has not
-- begun is of another store, or of a later state of a database that was restored.
create function @.erased_1(a_key text, a_since bigint) returns boolean language plpgsql volatile as $function$
declare
    s_erased boolean;
begin
    select a_since <> g.newest and (a_since < g.forgotten or a_since > g.newest or exists (
            select from generate_series(0, cardinality(string_to_array(a_key, '/'))) u (parts) cross join lateral (
                select x.epoch from @.erasure x
                where x.erased = sha256(convert_to(
                    array_to_string((string_to_array(a_key, '/'))[1:u.parts], '/') || '/', 'UTF8'
                )) offset 0
            ) o where o.epoch > a_since
        ) or exists (
            select from @.erasure x where x.erased = sha256(convert_to(a_key, 'UTF8')) and x.epoch > a_since
        ))
        into s_erased from @.epoch g where g.one;
    return s_erased;
end
$function$;
