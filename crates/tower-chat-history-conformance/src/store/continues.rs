//! Exchanges that continue a turn.

use tower_chat_history_core::{Expect, Load, Seq, StoreError};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::CONTINUES;

async fn assert_unknown(chat: &Chat, expect: Expect, continues: Seq, len: u64) {
    let refused = chat.append(expect, result_for(continues)).await;
    let right = matches!(
        refused,
        Err(StoreError::ContinuesUnknown { continues: named, len: has }) if named == continues && has == len
    );
    assert!(right, "{refused:?}, for a continuation of {continues} in a log of {len}");
}

/// A continuation names the exchange that it continues, even with other exchanges in between.
pub async fn a_continuation_keeps_what_it_answers(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let call = chat.add(call_of("what is it?")).await;
    let between = chat.add(turn_of("never mind")).await;
    let late = chat.add(result_for(call.seq)).await;
    let next = chat.add(result_for(call.seq)).await;
    assert!(late.is_moved(), "{late:?}");
    let log = [call, between, late, next];
    assert_eq!(chat.log().await, log);
    assert_eq!(chat.window(Load::new()).await.exchanges, log);
}

/// A position beyond the log cannot be continued, not even the exchange's own position. Nothing is stored.
pub async fn an_unknown_position_cannot_be_continued(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let added = chat.add_turns(2).await;
    let before = chat.window(Load::new()).await;
    let any = Expect::AnyIn(before.revision.incarnation());
    for continues in [2, 3, u64::MAX] {
        assert_unknown(&chat, any, Seq::new(continues), 2).await;
        assert_unknown(&chat, Expect::Exactly(before.revision), Seq::new(continues), 2).await;
        assert_unknown(&chat, Expect::AnyOrCreate, Seq::new(continues), 2).await;
    }
    assert_eq!(chat.log().await, added);
    assert_eq!(chat.window(Load::new()).await, before);
}

/// A conversation cannot begin with a continuation.
pub async fn an_absent_conversation_cannot_be_continued(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    for expect in [Expect::AnyOrCreate, Expect::Absent] {
        assert_unknown(&chat, expect, Seq::FIRST, 0).await;
    }
    chat.assert_absent().await;
}

/// The id of a refused continuation stays free.
pub async fn a_refused_continuation_can_be_repeated(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let early = result_for(Seq::FIRST);
    let refused = chat.append(Expect::AnyOrCreate, early.clone()).await;
    assert!(refused.is_err(), "{refused:?}");
    let call = chat.add(call_of("what is it?")).await;
    let added = chat.add(early).await;
    assert_eq!(chat.log().await, [call, added]);
}
