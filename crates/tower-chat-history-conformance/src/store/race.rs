//! Concurrent callers, each with its own handle, and callers that give up.

use super::support::*;

/// The numbers of times that futures are polled before they are dropped.
const POLLS: [usize; 6] = [0, 1, 2, 3, 10, 100];

type Raced = Vec<(Exchange, Result<Appended, StoreError>)>;

/// Runs several appends at the same time, and returns them with their results. Their exchanges have several messages
/// each.
async fn race(handles: &[Chat], count: usize, expect: Expect) -> Raced {
    let appends = handles.iter().cycle().take(count).enumerate().map(|(n, chat)| async move {
        let exchange = exchange_of((0..4).map(|part| Message::user(format!("append {n}, part {part}"))));
        let result = chat.append(expect, exchange.clone()).await;
        (exchange, result)
    });
    join_all(appends).await
}

/// Asserts that all appends were stored in one incarnation, each whole and at its reported position, without a gap
/// after `before`.
async fn assert_all_landed(chat: &Chat, before: &[Recorded], raced: Raced) {
    let now = chat.revision().await;
    let mut log = before.to_vec();
    let mut revisions = Vec::new();
    for (exchange, result) in raced {
        let appended = result.unwrap();
        assert!(!appended.duplicate && !revisions.contains(&appended.revision), "{appended:?}");
        assert_eq!(appended.revision.incarnation(), now.incarnation());
        revisions.push(appended.revision);
        log.push(Recorded::new(appended.seq, exchange));
    }
    log.sort_by_key(|recorded| recorded.seq);
    assert_eq!(chat.log().await, log);
    assert!(revisions.contains(&now), "an append made the revision {now}");
}

/// Asserts that one append was stored and the others conflicted.
async fn assert_one_landed(chat: &Chat, before: &[Recorded], raced: Raced) {
    let mut log = before.to_vec();
    for (exchange, result) in raced {
        match result {
            Ok(appended) => log.push(Recorded::new(appended.seq, exchange)),
            Err(error) => assert!(matches!(error, StoreError::Conflict { .. }), "{error:?}"),
        }
    }
    assert_eq!(log.len(), before.len() + 1, "one append wins");
    assert_eq!(chat.log().await, log);
}

/// Of several appends that expect the same revision, or no conversation, exactly one is stored.
pub async fn one_append_wins_a_revision(fixture: &dyn Fixture) {
    for _ in 0..5 {
        let chat = Chat::new(fixture).await;
        let handles = chat.handles(fixture, 2).await;
        assert_one_landed(&chat, &[], race(&handles, 8, Expect::Absent).await).await;
        for _ in 0..2 {
            let before = chat.log().await;
            let raced = race(&handles, 8, Expect::Exactly(chat.revision().await)).await;
            assert_one_landed(&chat, &before, raced).await;
        }
    }
}

/// Appends that accept any revision, or that may create the conversation, are all stored in one incarnation, whole and
/// without a gap.
pub async fn appends_to_any_revision_all_land(fixture: &dyn Fixture) {
    for _ in 0..3 {
        let chat = Chat::new(fixture).await;
        let handles = chat.handles(fixture, 4).await;
        assert_all_landed(&chat, &[], race(&handles, 12, Expect::AnyOrCreate).await).await;

        let before = chat.log().await;
        let raced = race(&handles, 24, Expect::AnyIn(chat.incarnation().await)).await;
        assert_all_landed(&chat, &before, raced).await;
    }
}

/// Callers that retry after a conflict all succeed.
pub async fn callers_that_retry_all_land(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let handles = chat.handles(fixture, 3).await;
    chat.add_turns(1).await;
    let retrying = handles.iter().map(|chat| async move {
        for n in 0..4 {
            let exchange = turn_of(&n.to_string());
            loop {
                let at = chat.revision().await;
                pause(1).await;
                match chat.append(Expect::Exactly(at), exchange.clone()).await {
                    Ok(_) => break,
                    Err(StoreError::Conflict { .. }) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
    });
    join_all(retrying).await;
    assert_eq!(chat.log().await.len(), 13);
}

/// Concurrent appends to many conversations are each stored in their own. Conversations do not share positions,
/// revisions or incarnations.
pub async fn conversations_do_not_disturb_each_other(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(3).await;
    let others: Vec<Chat> = (0..10).map(|_| chat.other()).collect();
    let filled = join_all(others.iter().map(|chat| chat.add_turns(5))).await;
    for (other, added) in others.iter().zip(filled) {
        assert_eq!(added[0].seq, Seq::FIRST);
        assert_eq!(other.log().await, added);
        assert_ne!(other.incarnation().await, chat.incarnation().await);
    }
    assert_eq!(chat.log().await.len(), 3);
}

/// A load or a read during appends returns a state that existed: its revision and its exchanges belong together.
pub async fn readers_see_states_that_existed(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let handles = chat.handles(fixture, 3).await;
    let first = chat.append(Expect::Absent, turn_of("0")).await.unwrap();
    let mut made = vec![(first.revision, first.seq)];
    let mut seen = Vec::new();
    let writing = async {
        for n in 1..20 {
            let appended = handles[0].append(Expect::AnyOrCreate, turn_of(&n.to_string())).await.unwrap();
            made.push((appended.revision, appended.seq));
            pause(1).await;
        }
    };
    let reading = async {
        for _ in 0..20 {
            let (window, page) = join(handles[1].now(), handles[2].read(0, 100)).await;
            seen.push((window.revision, window.exchanges));
            if !page.more {
                seen.push((page.revision.unwrap(), page.exchanges));
            }
            pause(1).await;
        }
    };
    join(writing, reading).await;

    for (revision, exchanges) in seen {
        let last = exchanges.last().unwrap().seq;
        assert!(made.contains(&(revision, last)), "revision {revision} with exchanges up to {last}");
        let has_gap = (0..).zip(&exchanges).any(|(at, recorded)| recorded.seq != Seq::new(at));
        assert!(!has_gap, "{exchanges:?}");
    }
}

/// A dropped append has stored its whole exchange or nothing, also if it creates the conversation. A repeat under the
/// same id stores the exchange if it is missing.
pub async fn a_dropped_append_is_settled_by_a_repeat(fixture: &dyn Fixture) {
    for (expect, before) in [(Expect::Absent, 0), (Expect::AnyOrCreate, 0), (Expect::AnyOrCreate, 1)] {
        for polls in POLLS {
            let chat = Chat::new(fixture).await;
            let mut log = chat.add_turns(before).await;
            let exchange = turn_of(&format!("{polls} polls"));
            abandon(chat.append(expect, exchange.clone()), polls).await;
            for recorded in &chat.log().await[before..] {
                assert_eq!(*recorded.exchange, exchange);
            }

            let repeated = chat.append(expect, exchange.clone()).await.unwrap();
            log.push(Recorded::new(repeated.seq, exchange));
            assert_eq!(repeated.seq, Seq::new(before as u64));
            assert_eq!(chat.log().await, log, "after {polls} polls");
        }
    }
}

/// A dropped append with a compaction stored both or neither.
pub async fn a_dropped_append_stores_its_compaction_with_it(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(1).await;
    for polls in POLLS {
        let before = chat.now().await;
        let exchange = turn_of(&format!("{polls} polls"));
        let own = before.revision.next();
        let append = Append::new(Expect::AnyOrCreate, exchange.clone())
            .compact(compact(before.compaction_version(), window_from(own.get())));
        abandon(chat.submit(append.clone()), polls).await;
        let after = chat.now().await;
        let both = after.revision != before.revision && after.compaction_version() != before.compaction_version();
        assert!(both || after == before, "one without the other, after {polls} polls");

        chat.submit(append).await.unwrap();
        let settled = chat.now().await;
        assert_eq!(settled.compaction.map(|compaction| compaction.window_start), Some(own));
        assert_eq!(settled.exchanges, [Recorded::new(own, exchange)]);
    }
}

/// If calls are dropped at every stage, the store still answers all other calls.
pub async fn a_store_outlives_dropped_calls(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(3).await;
    let incarnation = chat.incarnation().await;
    let compact = with!(window_from(1), profile: profile("abandoned"));
    let other = chat.other();
    for polls in POLLS.into_iter().cycle().take(30) {
        other.add(turn_of("to be deleted")).await;
        abandon(chat.load(Load::new()), polls).await;
        abandon(chat.log(), polls).await;
        abandon(chat.compact_in(incarnation, compact.clone()), polls).await;
        abandon(other.delete(), polls).await;
    }
    other.delete().await;
    other.assert_absent().await;
    chat.assert_log(&log).await;
}
