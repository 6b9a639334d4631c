//! Keys that the server evicted, or that somebody else wrote to: never a wrong history.

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_core::{
    Append, Compact, CompactOutcome, CompactionVersion, ConversationId, Cut, Derived, Exchange, Expect, HistoryStore,
    HistoryStoreExt, KnownState, Load, LoadLimit, Loaded, Profile, Prune, PruneTo, Revision, Seq, StoreError, Truncate,
};
use tower_chat_history_redis::NewerLayout;

use crate::support::{
    BASE, BEGINNING, BEHIND, END, PARTS, Place, SUMS, append, command, connect, conversation, key, say, texts, window,
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_conversation_that_lacks_a_key_is_corrupt,
        a_conversation_that_lacks_an_exchange_is_corrupt,
        a_key_of_another_kind_is_corrupt,
        a_state_that_is_none_is_corrupt,
        a_newer_layout_is_left_alone_and_said_so,
        a_position_that_is_none_is_corrupt,
        a_lost_key_is_noticed_where_a_window_is_unchanged,
        a_record_that_is_none_is_named,
        a_damaged_compaction_is_reported_without_quoting_it,
        an_index_entry_that_is_none_is_named,
        a_state_of_which_a_bit_was_changed_is_corrupt,
        sums_that_are_not_those_of_the_exchanges_are_corrupt,
        elements_in_each_others_place_are_corrupt,
        a_damaged_compaction_stops_no_append,
        a_truncation_removes_what_cannot_be_read,
    ]
}

/// Two conversations of three exchanges.
async fn place() -> (Place, ConversationId) {
    let place = Place::new().await;
    for name in ["damaged", "whole"] {
        for text in ["one", "two", "three"] {
            say(&place.store, &conversation(name), text).await;
        }
    }
    (place, conversation("damaged"))
}

fn is_quiet(error: &StoreError) {
    let mut next: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = next {
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("secret"), "{shown}");
        next = error.source();
    }
}

/// Asserts that every call but the deletion finds the conversation corrupt, and that a deletion mends it.
async fn is_corrupt(place: &Place, id: &ConversationId) {
    let store = &place.store;
    let incarnation = window(store, &conversation("whole")).await.revision.incarnation();
    let compact =
        Compact { profile: Profile::default(), replaces: CompactionVersion::NONE, cut: Cut::window_from(Seq::new(1)) };
    for error in [
        store.load(id, Load::new()).await.unwrap_err(),
        store.append(id, append("four")).await.unwrap_err(),
        store.read(id, Seq::FIRST, 9).await.unwrap_err(),
        store.compact(id, incarnation, compact).await.unwrap_err(),
        store.truncate(id, Revision::new(incarnation, 3), Seq::new(1)).await.unwrap_err(),
        store.prune(id, incarnation, PruneTo::LastTurns(1), Derived::Keep).await.unwrap_err(),
        store.prune(id, incarnation, PruneTo::LastTurns(1), Derived::Erase).await.unwrap_err(),
    ] {
        assert!(matches!(&error, StoreError::Corrupt { conversation, .. } if conversation == id), "{error:?}");
        is_quiet(&error);
    }
    store.delete(id).await.unwrap();
    assert_eq!(store.load(id, Load::new()).await.unwrap(), Loaded::Absent);
    assert_eq!(say(store, id, "anew").await.seq, Seq::FIRST);
    assert_eq!(texts(store, &conversation("whole")).await, ["one", "two", "three"]);
}

async fn a_conversation_that_lacks_a_key_is_corrupt() {
    for part in PARTS {
        let (mut place, id) = place().await;
        assert_eq!(place.run::<u64>(&["DEL", &key(&id, part)]), 1);
        is_corrupt(&place, &id).await;
    }
    // All but one.
    for part in PARTS {
        let (mut place, id) = place().await;
        for other in PARTS.into_iter().filter(|other| *other != part) {
            assert_eq!(place.run::<u64>(&["DEL", &key(&id, other)]), 1);
        }
        is_corrupt(&place, &id).await;
    }
}

async fn a_conversation_that_lacks_an_exchange_is_corrupt() {
    for (part, pop) in [(":log", "LPOP"), (":log", "RPOP"), (":index", "LPOP"), (":index", "RPOP")] {
        let (mut place, id) = place().await;
        place.run::<Vec<u8>>(&[pop, &key(&id, part)]);
        is_corrupt(&place, &id).await;
    }
}

async fn a_key_of_another_kind_is_corrupt() {
    for part in PARTS {
        let (mut place, id) = place().await;
        place.run::<()>(&["SET", &key(&id, part), "secret"]);
        is_corrupt(&place, &id).await;
    }
}

async fn a_state_that_is_none_is_corrupt() {
    let (mut place, id) = place().await;
    let state = place.state(&id);
    let changed = |at: usize, byte| {
        let mut state = state.clone();
        state[at] = byte;
        state
    };
    let longer = [&state[..], b"x"].concat();
    let states = [
        &[][..],
        &state[..1],
        &state[..state.len() - 1],
        &longer,
        // No layout has this number.
        &changed(0, 0),
        // The log begins at its end, behind it, and before the lists do; more is behind it than the lists have.
        &changed(BEGINNING + 5, 3),
        &changed(BEGINNING, 1),
        &changed(BASE + 5, 1),
        &changed(BEHIND, 1),
        &changed(END, 1),
    ]
    .map(<[u8]>::to_vec);
    for state in states {
        let (mut place, id) = self::place().await;
        place.set_whole_state(&id, &state);
        is_corrupt(&place, &id).await;
        // Numbers that cannot be are noticed also where the digits are theirs.
        if state.len() == longer.len() - 1 {
            let (mut place, id) = self::place().await;
            place.set_state(&id, &state);
            is_corrupt(&place, &id).await;
        }
    }
    let (mut place, id) = self::place().await;
    place.run::<()>(&["HDEL", &key(&id, ""), "s"]);
    place.run::<()>(&["HSET", &key(&id, ""), "other", "secret"]);
    is_corrupt(&place, &id).await;
}

/// What a later version of the store may have written, of which this one knows nothing but the first byte.
async fn a_newer_layout_is_left_alone_and_said_so() {
    let (mut place, id) = place().await;
    let revision = window(&place.store, &id).await.revision;
    let known = KnownState { revision, compaction: CompactionVersion::NONE, newest: None };
    place.set_whole_state(&id, b"\x02secret");
    let store = &place.store;
    let cut = Cut::window_from(Seq::new(1));
    let compact = Compact { profile: Profile::default(), replaces: CompactionVersion::NONE, cut };
    let incarnation = revision.incarnation();
    for error in [
        store.load(&id, Load::new()).await.unwrap_err(),
        store.load(&id, Load::new().known(known.clone())).await.unwrap_err(),
        store.append(&id, append("four")).await.unwrap_err(),
        store.read(&id, Seq::FIRST, 9).await.unwrap_err(),
        store.compact(&id, incarnation, compact).await.unwrap_err(),
        store.truncate(&id, revision, Seq::new(1)).await.unwrap_err(),
        store.prune(&id, incarnation, PruneTo::LastTurns(1), Derived::Keep).await.unwrap_err(),
        store.prune(&id, incarnation, PruneTo::LastTurns(1), Derived::Erase).await.unwrap_err(),
    ] {
        let StoreError::Backend { source } = &error else { panic!("{error:?}") };
        let newer = source.downcast_ref::<NewerLayout>().unwrap();
        assert_eq!((newer.found, newer.known, error.is_retryable()), (2, 1, false));
        is_quiet(&error);
    }
    assert_eq!(place.state(&id), b"\x02secret");
    assert_eq!(place.run::<u64>(&["LLEN", &key(&id, ":log")]), 3, "nothing was changed");
    assert_eq!(texts(&place.store, &conversation("whole")).await.len(), 3);
}

/// Positions of exchange ids that are none, or another exchange's: neither a wrong answer nor a call without an end.
async fn a_position_that_is_none_is_corrupt() {
    let long = "9".repeat(40);
    let no_numbers = ["secret", "", "-1", "0.5", "1e0", "0x1", "nan", "inf", " 1", "1 "];
    for position in no_numbers.into_iter().chain(["1", "3", "4294967296", &long]) {
        // In a whole log; in one of which the first two were pruned, and then the last two cut off, that are not swept yet.
        for numbers in [vec![], vec![(BEGINNING, 2)], vec![(END, 1), (BEHIND, 2)]] {
            let (mut place, id) = place().await;
            let page = place.store.read(&id, Seq::FIRST, 1).await.unwrap();
            let first = Exchange::clone(&page.exchanges[0].exchange);
            place.run::<()>(&["HSET", &key(&id, ":ids"), first.id.as_str(), position]);
            place.change_state(&id, &numbers);
            let again = Append::new(Expect::AnyOrCreate, first.clone());
            let error = place.store.append(&id, again).await.unwrap_err();
            assert!(matches!(&error, StoreError::Corrupt { .. }), "{position} {numbers:?}: {error:?}");
            is_quiet(&error);
            if numbers.is_empty() {
                let asked = Load::new().exchange(first.id.clone());
                let error = place.store.load(&id, asked).await.unwrap_err();
                assert!(matches!(&error, StoreError::Corrupt { .. }), "{position}: {error:?}");
                is_quiet(&error);
            }
        }
    }
}

/// Nothing of the lists is returned where a window is unchanged.
async fn a_lost_key_is_noticed_where_a_window_is_unchanged() {
    for part in PARTS.into_iter().skip(1) {
        let (place, id) = place().await;
        let revision = window(&place.store, &id).await.revision;
        let known = KnownState { revision, compaction: CompactionVersion::NONE, newest: None };
        let load = || place.store.load(&id, Load::new().known(known.clone()));
        assert_eq!(load().await.unwrap(), Loaded::Unchanged);
        command(&["DEL", &key(&id, part)]).query::<()>(&mut connect(&place.server)).unwrap();
        assert!(matches!(load().await, Err(StoreError::Corrupt { .. })), "{part}");
    }
}

/// Whatever bit of it somebody changed: no number of a state is taken on trust.
async fn a_state_of_which_a_bit_was_changed_is_corrupt() {
    let (mut place, id) = place().await;
    let whole = place.whole_state(&id);
    let version = window(&place.store, &id).await.revision.version();
    for bit in 8..whole.len() * 8 {
        let mut state = whole.clone();
        state[bit / 8] ^= 1 << (bit % 8);
        place.set_whole_state(&id, &state);
        let error = place.store.load(&id, Load::new()).await.unwrap_err();
        assert!(matches!(&error, StoreError::Corrupt { .. }), "bit {bit}: {error:?}");
        let error = place.store.append(&id, append("four")).await.unwrap_err();
        assert!(matches!(&error, StoreError::Corrupt { .. }), "bit {bit}: {error:?}");
    }
    place.set_whole_state(&id, &whole);
    assert_eq!(window(&place.store, &id).await.revision.version(), version);
}

/// Sums that were changed together with their digits contradict the exchanges.
async fn sums_that_are_not_those_of_the_exchanges_are_corrupt() {
    for at in [SUMS + 5, SUMS + 13, SUMS + 19] {
        for change in [1, 255] {
            let (mut place, id) = place().await;
            let mut state = place.state(&id);
            state[at] = state[at].wrapping_add(change);
            place.set_state(&id, &state);
            for error in [
                place.store.load(&id, Load::new()).await.unwrap_err(),
                place.store.read(&id, Seq::FIRST, 9).await.unwrap_err(),
            ] {
                assert!(matches!(&error, StoreError::Corrupt { .. }), "{at}, {change}: {error:?}");
            }
        }
    }
}

/// Elements of a list that stand in each other's place, or in that of another conversation's: the order of a log is not changed.
async fn elements_in_each_others_place_are_corrupt() {
    for part in [":log", ":index"] {
        let (mut place, id) = place().await;
        let (key, other) = (key(&id, part), key(&conversation("whole"), part));
        let [one, two]: [Vec<u8>; 2] = ["0", "1"].map(|at| place.run(&["LINDEX", &key, at]));
        let foreign: Vec<u8> = place.run(&["LINDEX", &other, "1"]);
        for elements in [[&two, &one], [&one, &one], [&one, &foreign]] {
            for (at, element) in elements.into_iter().enumerate() {
                place.set_element(&key, at, element);
            }
            for error in [
                place.store.load(&id, Load::new()).await.unwrap_err(),
                place.store.conversation(&id).messages().await.unwrap_err(),
            ] {
                assert!(matches!(&error, StoreError::Corrupt { .. }), "{part}: {error:?}");
                is_quiet(&error);
            }
        }
        for (at, element) in [&one, &two].into_iter().enumerate() {
            place.set_element(&key, at, element);
        }
        assert_eq!(texts(&place.store, &id).await, ["one", "two", "three"]);
    }
    // In both lists alike: the sums tell the order.
    let (mut place, id) = place().await;
    for part in [":log", ":index"] {
        let key = key(&id, part);
        let [one, two]: [Vec<u8>; 2] = ["0", "1"].map(|at| place.run(&["LINDEX", &key, at]));
        place.set_element(&key, 0, &two);
        place.set_element(&key, 1, &one);
    }
    let error = place.store.load(&id, Load::new()).await.unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt { .. }), "{error:?}");
}

/// An exchange was paid for: it is stored whatever became of the compaction that is there.
async fn a_damaged_compaction_stops_no_append() {
    let cut = r#"{"v":1,"window_start":1,"rounds_start":1,"cleared_before":1}"#;
    for (positions, record) in [("secret", cut), ("1 1 1 1 0 ab", "secret"), ("1 1 1", ""), ("", cut)] {
        for replaces in [0, 1, 77] {
            let (mut place, id) = place().await;
            place.run::<()>(&["HSET", &key(&id, ""), "v:default", positions, "c:default", record]);
            let replaces = CompactionVersion::new(replaces);
            let compact = Compact { profile: Profile::default(), replaces, cut: Cut::window_from(Seq::new(1)) };
            let appended = place.store.append(&id, append("four").compact(compact)).await.unwrap();
            assert_eq!((appended.seq, appended.duplicate), (Seq::new(3), false), "{positions}");
            let outcome = appended.compaction.unwrap();
            let mends = positions == "1 1 1 1 0 ab" && replaces.get() == 1;
            assert_eq!(matches!(outcome, CompactOutcome::Stored(_)), mends, "{positions}: {outcome:?}");
            assert_eq!(place.store.conversation(&id).messages().await.unwrap().len(), 8);
        }
    }
}

async fn a_record_that_is_none_is_named() {
    for damage in ["{secret", "", r#"{"v":9}"#] {
        let (mut place, id) = place().await;
        place.run::<()>(&["LSET", &key(&id, ":log"), "1", damage]);
        for error in [
            place.store.load(&id, Load::new()).await.unwrap_err(),
            place.store.conversation(&id).messages().await.unwrap_err(),
        ] {
            assert!(matches!(error, StoreError::Corrupt { seq, .. } if seq == Seq::new(1)), "{error:?}");
            is_quiet(&error);
        }
        assert_eq!(place.store.read(&id, Seq::new(2), 9).await.unwrap().exchanges.len(), 1);
        assert_eq!(say(&place.store, &id, "four").await.seq, Seq::new(3), "the log goes on");
    }
}

async fn a_damaged_compaction_is_reported_without_quoting_it() {
    let legal = "1 1 1 1 0 ab";
    for (positions, record) in [
        (legal, r#""secret""#),
        (legal, r#"{"v":9,"secret":1}"#),
        ("secret", r#"{"v":1,"window_start":1,"rounds_start":1,"cleared_before":1}"#),
        (legal, r#"{"v":1,"window_start":2,"rounds_start":1,"cleared_before":1}"#),
    ] {
        let (mut place, id) = place().await;
        place.run::<()>(&["HSET", &key(&id, ""), "v:default", positions, "c:default", record]);
        let error = place.store.load(&id, Load::new()).await.unwrap_err();
        assert!(matches!(error, StoreError::CorruptCompaction { .. }), "{error:?}");
        is_quiet(&error);
        assert_eq!(place.store.conversation(&id).messages().await.unwrap().len(), 6);
        assert_eq!(say(&place.store, &id, "four").await.seq, Seq::new(3));
        let other = Load::new().profile(Profile::new("other").unwrap());
        assert!(matches!(place.store.load(&id, other).await.unwrap(), Loaded::Window(_)));
    }
}

async fn a_truncation_removes_what_cannot_be_read() {
    let (mut place, id) = place().await;
    let cut = r#"{"v":1,"window_start":1,"rounds_start":1,"cleared_before":1}"#;
    place.run::<()>(&["HSET", &key(&id, ""), "v:default", "1 1 1 1 0 ab", "c:default", "secret"]);
    place.run::<()>(&["HSET", &key(&id, ""), "v:half", "1 1 1 1 0 ab"]);
    place.run::<()>(&["HSET", &key(&id, ""), "c:other", "secret"]);
    place.run::<()>(&["HSET", &key(&id, ""), "v:right", "1 1 1 1 0 ab", "c:right", cut]);
    assert_eq!(place.store.conversation(&id).truncate(Seq::new(2)).await.unwrap().removed, 1);
    let mut fields: Vec<String> = place.run(&["HKEYS", &key(&id, "")]);
    fields.retain(|field| field.contains(':'));
    fields.sort();
    assert_eq!(fields, ["c:right", "v:right"]);
    assert_eq!(texts(&place.store, &id).await, ["one", "two"]);
}

async fn an_index_entry_that_is_none_is_named() {
    let secret = "secret".repeat(20);
    for entry in ["", "secret", &secret] {
        let (mut place, id) = place().await;
        let revision = window(&place.store, &id).await.revision;
        place.run::<()>(&["LSET", &key(&id, ":index"), "2", entry]);
        let limit = LoadLimit::new(3, usize::MAX).unwrap();
        let keep = PruneTo::LastMessages(3);
        for error in [
            place.store.load(&id, Load::new()).await.unwrap_err(),
            place.store.load(&id, Load::new().limit(limit)).await.unwrap_err(),
            place.store.read(&id, Seq::FIRST, 9).await.unwrap_err(),
            place.store.truncate(&id, revision, Seq::new(2)).await.unwrap_err(),
            place.store.prune(&id, revision.incarnation(), keep, Derived::Keep).await.unwrap_err(),
        ] {
            assert!(matches!(error, StoreError::Corrupt { seq, .. } if seq == Seq::new(2)), "{error:?}");
            is_quiet(&error);
        }
    }
}
