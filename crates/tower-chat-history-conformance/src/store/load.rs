//! Loads: known states, recorded exchanges, exchanges that were added since, and limits. And the name of the store's
//! system.

use super::support::*;

/// A conversation that does not exist is absent, whatever the load asks for.
pub async fn a_missing_conversation_is_absent(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let revision = Revision::new(Incarnation::random(), 1);
    let known = KnownState { revision, compaction: NONE, newest: None };
    let asked = Load::new().exchange(ExchangeId::generate());
    for load in [Load::new(), Load::new().known(known.clone()), asked.clone(), asked.known(known), limit(1, 1)] {
        assert!(chat.load(load).await.is_absent());
    }
}

/// A window says how large the whole log is, whatever part of the log it has.
pub async fn a_window_has_the_size_of_the_whole_log(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(3).await;
    chat.cut(NONE, window_from(1)).await;
    for exchange in [turn_of(""), turn_of("a longer question"), exchange_of([])] {
        for load in [Load::new(), limit(1, 1)] {
            for chat in [&chat, &chat.reopened(fixture).await] {
                assert_eq!(chat.window(load.clone()).await.log_bytes, bytes_of(&log));
            }
        }
        log.push(chat.add(exchange).await);
    }
    assert_eq!(chat.now().await.log_bytes, bytes_of(&log));

    chat.delete().await;
    let log = chat.add_turns(1).await;
    assert_eq!(chat.now().await.log_bytes, bytes_of(&log));
}

/// A caller that knows the log and the compaction gets `Unchanged`, with and without a compaction.
pub async fn a_known_state_is_unchanged(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let known = chat.now().await;
    chat.assert_unchanged(&known).await;
    assert_eq!(chat.load(limit(1, 1).known(known.known())).await, Loaded::Unchanged);

    chat.cut(NONE, window_from(1)).await;
    chat.assert_unchanged(&chat.now().await).await;
}

/// A compaction by another caller changes the known state, even though the log is unchanged. A caller that does not
/// know the compaction gets the whole window, also if exchanges were added.
pub async fn a_compaction_changes_the_known_state(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let other = chat.reopened(fixture).await;
    let mut log = chat.add_turns(3).await;
    let mut known = chat.now().await;
    for start in [1, 2] {
        let compaction = other.cut(known.compaction_version(), window_from(start)).await;
        let window = chat.window(Load::new().known(known.known())).await;
        assert_eq!((window.revision, window.compaction.as_ref()), (known.revision, Some(&compaction)));
        assert_eq!(window.exchanges, log[start as usize..]);

        log.extend(chat.add_turns(1).await);
        let window = chat.window(Load::new().known(known.known()).or_added()).await;
        assert_eq!((window.compaction.as_ref(), &window.exchanges[..]), (Some(&compaction), &log[start as usize..]));
        known = window;
    }
}

/// A known state of one profile is not accepted for another profile whose compaction has another version.
pub async fn another_profile_is_not_known(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(2).await;
    let known = chat.now().await;
    let small = profile("small");
    chat.compact_as(&small, NONE, window_from(1)).await.unwrap();
    let window = chat.window(Load::new().profile(small).known(known.known())).await;
    assert_eq!(window.exchanges, log[1..]);
    assert_eq!(chat.window(Load::new().known(window.known())).await.exchanges, log);
    chat.assert_unchanged(&known).await;
}

/// Only the exact state is known: a revision or a compaction version that never existed returns the window.
pub async fn a_state_that_never_existed_is_not_known(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(1).await;
    let now = chat.now().await.known();
    let incarnation = now.revision.incarnation();
    let version = now.revision.version();
    for known in [
        KnownState { compaction: CompactionVersion::new(1), ..now.clone() },
        KnownState { compaction: CompactionVersion::new(u64::MAX), ..now.clone() },
        KnownState { revision: Revision::new(incarnation, u64::MAX), ..now.clone() },
        KnownState { revision: Revision::new(incarnation, version - 1), ..now.clone() },
        KnownState { revision: Revision::new(Incarnation::random(), version), ..now.clone() },
        // If a server lost acknowledged appends, another exchange may be at the same revision.
        KnownState { newest: Some(ExchangeId::generate()), ..now.clone() },
    ] {
        assert_eq!(chat.window(Load::new().known(known.clone())).await.exchanges, log, "{known:?}");
    }

    let without_end = KnownState { newest: None, ..now.clone() };
    for known in [now, without_end] {
        assert_eq!(chat.load(Load::new().known(known)).await, Loaded::Unchanged);
    }
}

/// A recorded exchange is found by its id before the known state is checked, also before the window, if it is a
/// continuation, or if it was added since.
pub async fn a_recorded_exchange_is_found_first(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(2).await;
    let old = chat.now().await.known();
    log.extend(chat.add_call(1).await);
    for start in [0, 2] {
        let replaces = chat.now().await.compaction_version();
        chat.cut(replaces, window_from(start)).await;
        let known = Load::new().known(chat.now().await.known());
        for load in [Load::new(), known, limit(1, 1), Load::new().known(old.clone()).or_added()] {
            for recorded in &log {
                let asked = load.clone().exchange(recorded.exchange.id.clone());
                assert_eq!(chat.load(asked).await, Loaded::AlreadyRecorded(recorded.clone()));
            }
        }
    }
}

/// If the requested exchange is not recorded, the answer is the same as without the request.
pub async fn an_exchange_that_is_not_recorded_is_not_found(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let elsewhere = chat.other().add(turn_of("elsewhere")).await;
    let window = chat.now().await;
    for id in [ExchangeId::generate(), elsewhere.exchange.id.clone()] {
        let asked = Load::new().exchange(id);
        assert_eq!(chat.load(asked.clone()).await, Loaded::Window(window.clone()));
        assert_eq!(chat.load(asked.known(window.known())).await, Loaded::Unchanged);
    }
}

/// Loads what was added to this window, and returns the current one. A store may always return the window instead.
pub(super) async fn extended(chat: &Chat, known: &Window) -> Window {
    match chat.load(Load::new().known(known.known()).or_added()).await {
        Loaded::Unchanged => known.clone(),
        Loaded::Added(added) => {
            assert!(!added.exchanges.is_empty(), "an exchange was added");
            known.clone().with_added(added)
        }
        loaded => window(loaded),
    }
}

/// However many exchanges others have added, with all their parts, the caller gets to the window that a load without a
/// known state returns.
pub async fn added_exchanges_extend_the_known_window(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let other = chat.reopened(fixture).await;
    chat.add_turns(3).await;
    let mut known = chat.now().await;
    let mut windows = vec![known.clone()];
    for count in [0, 1, 2, 7] {
        other.add_turns(count).await;
        known = extended(&chat, &known).await;
        assert_eq!(known, chat.now().await, "{count} exchanges were added");
        windows.push(known.clone());
    }
    chat.cut(NONE, summary_to(4, "before")).await;
    windows.push(chat.now().await);
    other.add_call(1).await;
    other.add_all([super::content::recalling("asks", &[0]), super::content::made_after("third")]).await;
    for known in &windows {
        assert_eq!(extended(&chat, known).await, chat.now().await);
    }
}

/// An append by another caller changes the known state. A caller that does not expect added exchanges never gets them.
pub async fn an_append_changes_the_known_state(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(2).await;
    let known = chat.now().await.known();
    log.extend(chat.reopened(fixture).await.add_turns(1).await);
    let window = chat.window(Load::new().known(known.clone())).await;
    assert_ne!(window.revision, known.revision);
    assert_eq!(window.exchanges, log);
    assert_eq!(chat.window(Load::new().or_added()).await.exchanges, log, "no state is known");
}

/// A state of another log, of another compaction, or from the future is not an earlier state of the log. After a
/// failover, the log can have other exchanges at the positions that the caller knows. The newest known exchange shows
/// that.
pub async fn nothing_is_added_to_a_state_that_the_log_never_had(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(3).await;
    let before = chat.now().await.known();
    log.extend(chat.add_turns(2).await);
    let incarnation = before.revision.incarnation();
    let mut states = Vec::new();
    for version in [0, 1, 2, 4, u64::MAX] {
        states.push(KnownState { revision: Revision::new(incarnation, version), ..before.clone() });
    }
    for revision in [Revision::new(Incarnation::random(), 3), Revision::new(incarnation, 3).beginning_at(Seq::new(1))] {
        states.push(KnownState { revision, ..before.clone() });
    }
    for version in [1, u64::MAX] {
        states.push(KnownState { compaction: CompactionVersion::new(version), ..before.clone() });
    }
    let first = log[0].exchange.id.clone();
    let fourth = log[3].exchange.id.clone();
    for newest in [None, Some(ExchangeId::generate()), Some(first), Some(fourth)] {
        states.push(KnownState { newest, ..before.clone() });
    }
    for known in states {
        let window = chat.window(Load::new().known(known.clone()).or_added()).await;
        assert_eq!(window.exchanges, log, "{known:?}");
    }
}

/// Exchanges that exceed the limit of the load are not added: the caller gets the window within the limit.
pub async fn added_exchanges_are_within_the_limit(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let known = chat.now().await.known();
    let added = chat.add_turns(3).await;
    let bytes = bytes_of(&added) as usize;
    for load in [limit(5, MANY), limit(MANY, bytes - 1)] {
        let window = chat.window(load.known(known.clone()).or_added()).await;
        assert_eq!((window.exchanges.as_slice(), window.truncated), (&added[1..], true));
    }
    for load in [limit(6, MANY), limit(MANY, bytes)] {
        let exchanges = match chat.load(load.known(known.clone()).or_added()).await {
            Loaded::Added(found) => found.exchanges,
            loaded => window(loaded).exchanges,
        };
        assert_eq!(exchanges, added, "the added exchanges are exactly as large as the limit");
    }
}

/// Added exchanges whose media exceed their limit are not added: the caller gets the window within the limit.
pub async fn added_media_are_within_their_limit(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let known = chat.now().await.known();
    let added = chat.add_all([photo_of(2_000), photo_of(3_000)]).await;
    let text = bytes_of(&added) as usize - 5_000;
    for load in [limit_of_bytes(text, 4_999), limit_of_bytes(text - 1, 5_000)] {
        let window = chat.window(load.known(known.clone()).or_added()).await;
        assert_eq!((window.exchanges.as_slice(), window.truncated), (&added[1..], true));
    }
    let exchanges = match chat.load(limit_of_bytes(text, 5_000).known(known).or_added()).await {
        Loaded::Added(found) => found.exchanges,
        loaded => window(loaded).exchanges,
    };
    assert_eq!(exchanges, added, "the added exchanges are exactly as large as the limit");
}

fn assert_name(handles: &[Chat], name: &str, after: &str) {
    for chat in handles {
        assert_eq!(chat.store.history().system(), name, "after {after}");
    }
}

/// The name of the system is the same at every call, through all handles, whatever is called in between.
pub async fn the_name_of_the_system_does_not_change(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut handles = chat.handles(fixture, 3).await;
    handles.push(chat.with_id(chat.id.clone()));
    let name = chat.store.history().system();
    assert_ne!(name, "");
    assert_name(&handles, name, "nothing");
    chat.load(Load::new()).await;
    assert_name(&handles, name, "a load of nothing");
    let log = handles[0].add_turns(3).await;
    assert_name(&handles, name, "appends");
    chat.log().await;
    assert_name(&handles, name, "a load and a read");
    chat.assert_repeat(Expect::Absent, &log[0]).await;
    assert_conflict(chat.append(Expect::Absent, turn_of("refused")).await, chat.revision().await);
    assert_name(&handles, name, "a refusal");
    chat.cut(NONE, window_from(1)).await;
    assert_name(&handles, name, "a compaction");
    chat.delete().await;
    assert_name(&handles, name, "a deletion");
}

// Bounded loads: the newest turns that fit, and never a part of one.

/// Asserts that a load returns the log from this exchange on, and reports whether it cut something off.
async fn assert_loads(chat: &Chat, load: Load, log: &[Recorded], from: usize) {
    let limit = load.limit;
    let window = chat.window(load).await;
    assert_eq!((window.truncated, window.exchanges.as_slice()), (from > 0, &log[from..]), "{limit:?}");
}

/// Returns an exchange of this many messages.
fn questions(count: usize) -> Exchange {
    exchange_of(std::iter::repeat_n(Message::user("x"), count))
}

fn bytes(exchanges: &[Recorded]) -> usize {
    bytes_of(exchanges) as usize
}

/// A limit of messages, or of bytes of their JSON, returns the newest turns that fit, and reports that it cut something
/// off. A window that fits exactly is not truncated.
pub async fn a_limit_brings_the_newest_turns(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(3).await;
    log.extend(chat.add_all([turn_of("世界世界"), turn_of("👩‍👩‍👧 \u{0}\n")]).await);
    for (messages, from) in [(4, 3), (5, 3), (6, 2), (9, 1), (10, 0), (MANY, 0)] {
        assert_loads(&chat, limit(messages, MANY), &log, from).await;
        assert_loads(&chat, limit(messages, bytes(&log)), &log, from).await;
    }
    for from in 0..4 {
        let fits = bytes(&log[from..]);
        for (bytes, from) in [(fits, from), (fits + 1, from), (fits - 1, from + 1)] {
            assert_loads(&chat, limit(MANY, bytes), &log, from).await;
            assert_loads(&chat, limit(10, bytes), &log, from).await;
        }
    }
}

/// Asserts that limits of text and of media cut this log off where they should. Its turns have a photo each.
pub(super) async fn assert_media_are_counted(chat: &Chat, log: &[Recorded]) {
    for from in 0..log.len() - 1 {
        let media = media_of(&log[from..]);
        let text = bytes(&log[from..]) - media;
        for (text, media) in [(text, media), (text, MANY), (MANY, media)] {
            assert_loads(chat, limit_of_bytes(text, media), log, from).await;
        }
        for (text, media) in [(text - 1, media), (text, media - 1), (text - 1, MANY), (MANY, media - 1)] {
            assert_loads(chat, limit_of_bytes(text, media), log, from + 1).await;
        }
    }
}

/// Media have a limit of their own. They do not count against the limit of bytes, and a window with more media begins
/// later. A repeat of an append counts nothing.
pub async fn media_have_a_limit_of_their_own(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let photos = chat.add_all([2_000, 3_000, 4_000].map(photo_of)).await;
    assert_media_are_counted(&chat, &photos).await;
    chat.assert_repeat(Expect::AnyOrCreate, &photos[0]).await;
    assert_media_are_counted(&chat, &photos).await;

    let chat = chat.other();
    let log = chat.add_all([photo_of(2_000), turn_of("x"), photo_of(3_000), photo_of(4_000), turn_of("x")]).await;
    let media = [(9_000, 0), (8_999, 1), (7_000, 1), (6_999, 3), (4_000, 3), (3_999, 4), (0, 4)];
    for (media, from) in media {
        assert_loads(&chat, limit_of_bytes(MANY, media), &log, from).await;
    }
    for other in [&chat.reopened(fixture).await, &chat] {
        let text = bytes(&log) - 9_000;
        assert_loads(other, limit_of_bytes(text, 9_000), &log, 0).await;
        assert_loads(other, limit(1, 1), &log, 4).await;
    }
}

/// By default, six photos of 1.5 MB do not shorten a window.
pub async fn six_photos_are_loaded_by_default(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = Vec::new();
    for _ in 0..6 {
        log.push(chat.add(photo_of(1_500_000)).await);
    }
    log.extend(chat.add_turns(1).await);
    assert_loads(&chat, Load::new(), &log, 0).await;
}

/// A turn of several exchanges is returned whole or not at all.
pub async fn a_turn_is_not_split(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_call(1).await;
    log.extend(chat.add_turns(1).await);
    assert_loads(&chat, limit(6, MANY), &log, 0).await;
    for messages in [3, 4, 5] {
        assert_loads(&chat, limit(messages, MANY), &log, 2).await;
    }
    assert_loads(&chat, limit(MANY, bytes(&log[1..])), &log, 2).await;
}

/// The newest turn is returned whole, even if it exceeds the limit by itself, and however many exchanges it has.
pub async fn the_newest_turn_comes_whole(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_call(1).await;
    assert_loads(&chat, limit(1, MANY), &log, 0).await;
    assert_loads(&chat, limit(MANY, 1), &log, 0).await;

    log.extend(chat.add_call(300).await);
    assert_loads(&chat, limit(1, 1), &log, 2).await;
    assert_loads(&chat, limit(4, MANY), &log, 2).await;
    assert_loads(&chat, limit(log.len() * 2 - 4, MANY), &log, 2).await;
    assert_loads(&chat, limit(log.len() * 2, MANY), &log, 0).await;
}

/// A window never starts at a late continuation, which follows another turn's opening.
pub async fn a_late_continuation_does_not_start_a_window(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_all([call_of("what is it?"), turn_of("never mind"), result_for(Seq::FIRST)]).await;
    assert_loads(&chat, limit(2, MANY), &log, 1).await;
    assert_loads(&chat, limit(4, MANY), &log, 1).await;
    assert_loads(&chat, limit(6, MANY), &log, 0).await;
}

/// The window begins where the compaction says. Earlier exchanges are not loaded, and that is not a truncation. The
/// smallest window is the newest turn.
pub async fn a_window_begins_at_its_compaction(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(5).await;
    let compaction = chat.cut(NONE, summary_to(2, "before")).await;
    assert_loads(&chat, Load::new(), &log[2..], 0).await;
    assert_loads(&chat, limit(6, bytes(&log[2..])), &log[2..], 0).await;
    assert_loads(&chat, limit(5, MANY), &log[2..], 1).await;
    assert_loads(&chat, limit(1, 1), &log[2..], 2).await;

    log.extend(chat.add_call(1).await);
    assert_loads(&chat, Load::new(), &log[2..], 0).await;
    chat.cut(compaction.version, summary_to(5, "before")).await;
    assert_loads(&chat, Load::new(), &log[5..], 0).await;
    assert_loads(&chat, limit(1, 1), &log[5..], 0).await;
}

/// A load without an explicit limit is bounded by the default of 1,000 messages.
pub async fn the_default_limit_holds(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_all((0..11).map(|_| questions(100))).await;
    assert_loads(&chat, Load::new(), &log, 1).await;
}

/// A large limit is not truncated to a smaller integer type.
pub async fn a_large_limit_is_not_a_small_one(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(3).await;
    for bits in [8, 15, 16, 31, 32, 63] {
        // In a narrower integer, this number would be 3 or negative.
        let Some(large) = 1_usize.checked_shl(bits).map(|power| power + 3) else { continue };
        assert_loads(&chat, limit(large, MANY), &log, 0).await;
        if large >= bytes(&log) {
            assert_loads(&chat, limit(MANY, large), &log, 0).await;
            assert_loads(&chat, limit(large, large), &log, 0).await;
        }
    }
}

/// The store counts more than 65,535 messages.
pub async fn tens_of_thousands_of_messages_are_counted(fixture: &dyn Fixture) {
    const EACH: usize = 33_000;
    let chat = Chat::new(fixture).await;
    let log = chat.add_all([questions(EACH), questions(EACH)]).await;
    assert_loads(&chat, limit(2 * EACH, MANY), &log, 0).await;
    assert_loads(&chat, limit(2 * EACH - 1, MANY), &log, 1).await;
}

/// An exchange without messages counts as one message, so a load of such exchanges is bounded too. It has no bytes.
pub async fn an_exchange_without_messages_counts_as_one(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_all((0..6).map(|_| exchange_of([]))).await;
    for messages in 1..8 {
        assert_loads(&chat, limit(messages, MANY), &log, 6_usize.saturating_sub(messages)).await;
    }
    assert_loads(&chat, limit(MANY, 1), &log, 0).await;

    log.extend(chat.add_turns(1).await);
    log.extend(chat.add_all([exchange_of([]), exchange_of([])]).await);
    log.extend(chat.add_turns(1).await);
    // From the newest exchange on: 2, 1, 1 and 2 messages, and then 1 for each of the first exchanges.
    for (messages, from) in [(1, 9), (2, 9), (3, 8), (4, 7), (5, 7), (6, 6), (7, 5), (11, 1), (12, 0), (13, 0)] {
        assert_loads(&chat, limit(messages, MANY), &log, from).await;
    }
    assert_loads(&chat, limit(MANY, bytes(&log)), &log, 0).await;
}

/// A turn is not split, and the newest turn is returned whole, even if its exchanges have no messages.
pub async fn turns_of_empty_exchanges_are_not_split(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = vec![chat.add(exchange_of([])).await];
    for opening in [1, 4].map(Seq::new) {
        log.push(chat.add(exchange_of([])).await);
        for _ in 0..2 {
            log.push(chat.add(exchange_of([]).continuing(opening)).await);
        }
    }
    for (messages, from) in [(1, 4), (3, 4), (4, 4), (5, 4), (6, 1), (7, 0)] {
        assert_loads(&chat, limit(messages, MANY), &log, from).await;
    }
}

/// An exchange without a reply, and one without any message, are allowed. They can be read, known and repeated like any
/// other.
pub async fn empty_exchanges_have_positions_in_the_log(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_all([exchange_of([]), exchange_of([]), exchange_of([Message::user("anyone there?")])]).await;
    chat.assert_log(&log).await;
    let window = chat.now().await;
    assert_eq!(window.revision.version(), 3);
    chat.assert_unchanged(&window).await;
    chat.assert_repeat(Expect::AnyOrCreate, &log[1]).await;
}
