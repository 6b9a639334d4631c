//! Messages that were shown again, which are stored with their exchange.

use super::support::*;

/// Returns an exchange whose recalled messages cite these positions.
pub(super) fn recalling(text: &str, cited: &[u64]) -> Exchange {
    let citations = cited.iter().zip(1..).map(|(seq, end)| Citation::new(Seq::new(*seq), 0..end));
    let text_of = format!("<recalled> for {text}: \u{0} \"ä\" \\ 👩‍👩‍👧\r\n");
    with!(turn_of(text), recalled: Some(Recalled::new(text_of, citations.collect())))
}

/// Returns an exchange whose recalled messages cite a position of another conversation, and then these of the same log.
pub(super) fn recalling_other(text: &str, cited: &[u64]) -> Exchange {
    let other = ConversationId::new(["other/1", text]).unwrap();
    let mut exchange = recalling(text, cited);
    if let Some(recalled) = &mut exchange.recalled {
        recalled.citations.insert(0, Citation::new(Seq::new(7), 2..3).of(other));
    }
    exchange
}

fn forget_recalled(recorded: &mut Recorded) {
    *recorded = changed(recorded, |exchange| exchange.recalled = None);
}

/// Recalled messages are returned byte for byte. So are their citations and their size.
pub async fn recalled_messages_come_back(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut exchange = recalling("asks", &[0, 1]);
    if let Some(recalled) = &mut exchange.recalled {
        recalled.tokens = Some(u32::MAX);
        recalled.citations.push(Citation::new(Seq::new(1), 7..u32::MAX));
    }
    // The first one creates the conversation.
    let large = recalling(&"long ".repeat(100_000), &[]);
    let others = [recalling_other("cites another", &[0]), turn_of("recalls nothing"), recalling("cites one", &[0])];
    let log = chat.add_all([large, turn_of("x"), exchange, recalling("cites nothing", &[])]).await;
    let log = [log, chat.add_all(others).await].concat();
    chat.assert_log_everywhere(fixture, &log).await;
}

/// Recalled messages do not count against a load limit.
pub async fn recalled_messages_do_not_count(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_all((0..3).map(|_| recalling("the same", &[]))).await;
    let bytes = log[0].exchange.bytes();
    assert_eq!(chat.window(limit(4, 2 * bytes)).await.exchanges, log[1..]);
}

/// A prune that erases derived data removes recalled messages that cite a removed exchange. The exchange stays.
pub async fn an_erasure_removes_recalled_messages_that_cite_removed_exchanges(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let mut log = chat.add_turns(1).await;
    let cited: [&[u64]; 5] = [&[2], &[0, 2], &[2, 1], &[], &[3]];
    log.extend(chat.add_all(cited.map(|cited| recalling("cites", cited))).await);
    chat.forget(PruneTo::From(Seq::new(2))).await;
    forget_recalled(&mut log[2]);
    forget_recalled(&mut log[3]);
    chat.assert_log_everywhere(fixture, &log).await;
}

/// A prune that erases derived data removes recalled messages that cite another conversation, also if the log was never
/// pruned and no exchange is removed. Then it begins a new incarnation, and what cites the remaining log stays.
pub async fn an_erasure_removes_recalled_messages_that_cite_other_conversations(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(2).await;
    log.push(chat.add(recalling("cites its own log", &[0, 1])).await);
    let before = chat.revision().await;
    chat.forget(PruneTo::From(Seq::FIRST)).await;
    assert_eq!(chat.revision().await, before, "nothing is to be erased");
    assert_eq!(chat.log().await, log);

    let citing = ["cites another", "cites another, too"].map(|text| recalling_other(text, &[0]));
    log.extend(chat.add_all(citing).await);
    log.push(chat.add(turn_of("recalls nothing")).await);
    chat.prune(PruneTo::From(Seq::FIRST)).await;
    assert_eq!(chat.log().await, log);

    chat.forget(PruneTo::From(Seq::FIRST)).await;
    log[3..5].iter_mut().for_each(forget_recalled);
    chat.assert_log_everywhere(fixture, &log).await;
    let after = chat.revision().await;
    assert_ne!(after.incarnation(), before.incarnation());
    chat.forget(PruneTo::From(Seq::FIRST)).await;
    assert_eq!(chat.revision().await, after, "nothing is left to be erased");

    chat.add(recalling_other("again", &[0])).await;
    chat.forget(PruneTo::From(Seq::new(1))).await;
    let kept: Vec<bool> = chat.log().await.iter().map(|recorded| recorded.exchange.recalled.is_some()).collect();
    assert_eq!(kept, [false; 6], "position 0 is cited, or another conversation");
}

/// A prune that keeps derived data keeps all recalled messages of the remaining exchanges. A later one that erases
/// derived data removes those that cite exchanges of the first prune.
pub async fn a_prune_keeps_recalled_messages_until_derived_data_is_erased(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(3).await;
    let mut log = [chat.add(recalling("cites a pruned one", &[1])).await];
    chat.prune(PruneTo::LastTurns(1)).await;
    assert_eq!(chat.log().await, log);
    chat.forget(PruneTo::LastTurns(1)).await;
    forget_recalled(&mut log[0]);
    assert_eq!(chat.log().await, log);
}
