//! The conversation handle over this store: reading, importing, clearing and editing.

use super::support::*;

/// Six exchanges of these are larger than a page of a store that pages by size.
fn large(n: usize) -> Exchange {
    turn_of(&format!("{n} {}", "x".repeat(600_000)))
}

/// The messages are those of the whole log as they were stored, not only of its window.
pub async fn messages_are_those_of_the_log(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    assert_eq!(chat.conversation().messages().await.unwrap(), []);
    let log = chat.add_turns(5).await;
    chat.cut(NONE, summary_to(4, "before")).await;
    let messages: Vec<Message> = log.iter().flat_map(|recorded| recorded.exchange.messages.clone()).collect();
    assert_eq!(chat.conversation().messages().await.unwrap(), messages);
    assert_eq!(chat.conversation().exchanges().await.unwrap(), log);
}

/// A log larger than a page of the store is listed and copied as a whole.
pub async fn a_large_log_is_listed_and_forked(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_all((0..10).map(large)).await;
    let messages = chat.conversation().messages().await.unwrap();
    assert_eq!(messages.len(), 20);
    let order: Vec<String> = messages.iter().step_by(2).map(|message| message.text()[..1].to_owned()).collect();
    assert_eq!(order.concat(), "0123456789");

    let copy = chat.other();
    assert_eq!(chat.conversation().fork(Seq::new(9), &copy.id).await.unwrap(), 9);
    assert_eq!(copy.log().await, log[..9]);
}

/// An imported log ends its exchanges at assistant messages, continues turns, and may end with a question.
pub async fn an_import_keeps_turns(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let messages = [
        Message::user("Hey there! I'm Nemo."),
        Message::assistant("Hello!"),
        Message::user("What is six times seven?"),
        call_of("").messages[1].clone(),
        Message::tool("call-1", "42"),
        Message::assistant("42."),
        Message::user("Who am I?"),
    ];
    assert_eq!(chat.conversation().import(messages.clone()).await.unwrap(), 4);
    assert_eq!(chat.conversation().messages().await.unwrap(), messages);
    let log = chat.conversation().exchanges().await.unwrap();
    let shape: Vec<_> = log.iter().map(|e| (e.exchange.messages.len(), e.exchange.continues)).collect();
    assert_eq!(shape, [(2, None), (2, None), (2, Some(Seq::new(1))), (1, None)]);
}

/// An import continues at the end of the log, also with the result of its last call.
pub async fn an_import_continues_the_log(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let [question, call] = <[Message; 2]>::try_from(call_of("6 * 7?").messages).unwrap();
    chat.conversation().import([Message::user("hi"), Message::assistant("hello"), question, call]).await.unwrap();
    let rest = [Message::tool("call-1", "42"), Message::assistant("42."), Message::user("thanks")];
    assert_eq!(chat.conversation().import(rest).await.unwrap(), 2);
    let continues: Vec<_> = chat.log().await.iter().map(|recorded| recorded.exchange.continues).collect();
    assert_eq!(continues, [None, None, Some(Seq::new(1)), None]);
}

/// An import of nothing does nothing, and a log that starts with instructions is refused as a whole.
pub async fn instructions_are_not_imported(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    assert_eq!(chat.conversation().import([]).await.unwrap(), 0);
    let messages = [Message::system("be kind"), Message::developer("be brief"), Message::user("hi")];
    let refused = chat.conversation().import(messages).await;
    assert!(matches!(refused, Err(ImportError::Instructions { count: 2 })), "{refused:?}");
    chat.assert_absent().await;
}

/// Clearing removes the conversation, and an import creates it again.
pub async fn a_cleared_conversation_can_be_filled_again(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(3).await;
    for _ in 0..2 {
        chat.conversation().clear().await.unwrap();
    }
    chat.assert_absent().await;
    let messages = [Message::user("hi"), Message::assistant("who are you?")];
    assert_eq!(chat.conversation().import(messages.clone()).await.unwrap(), 1);
    assert_eq!(chat.conversation().messages().await.unwrap(), messages);
}

/// The handle truncates the current log. If there is no conversation, there is nothing to remove.
pub async fn a_conversation_is_truncated(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let conversation = chat.store.truncating().conversation(&chat.id);
    assert_eq!(conversation.truncate(Seq::FIRST).await.unwrap(), Truncated::new(None, 0));

    let log = chat.add_turns(4).await;
    let truncated = conversation.truncate(Seq::new(1)).await.unwrap();
    assert_eq!(truncated, Truncated::new(Some(chat.revision().await), 3));
    assert_eq!(conversation.exchanges().await.unwrap(), log[..1]);
    conversation.truncate(Seq::FIRST).await.unwrap();
    chat.assert_absent().await;
}

/// Exchanges can be taken one by one up to the first, also within a turn and with a compaction. Then there is none
/// left.
pub async fn the_last_exchange_is_taken(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(2).await;
    log.extend(chat.add_call(1).await);
    chat.cut(NONE, summary_to(2, "before")).await;
    let conversation = chat.store.truncating().conversation(&chat.id);
    while let Some(last) = log.pop() {
        assert_eq!(conversation.take_last().await.unwrap(), Some(last));
        assert_eq!(chat.log().await, log);
    }
    assert_eq!(conversation.take_last().await.unwrap(), None);
    chat.assert_absent().await;
}

/// A taken exchange can be appended again, under its own id and with another reply.
pub async fn a_reply_is_generated_again(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(2).await;
    let taken = chat.store.truncating().conversation(&chat.id).take_last().await.unwrap().unwrap();
    log[1] = changed(&taken, |exchange| exchange.messages[1] = Message::assistant("another reply"));
    let expect = Expect::Exactly(chat.revision().await);
    let again = chat.append(expect, (*log[1].exchange).clone()).await.unwrap();
    assert_eq!((again.seq, again.duplicate), (Seq::new(1), false));
    assert_eq!(chat.log().await, log);
}

/// A fork has the same exchanges with all their fields, and no compaction. Both conversations continue independently.
pub async fn a_fork_has_the_same_exchanges(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let continuation = with!(
        result_for(Seq::FIRST),
        at: Timestamp::from_unix_millis(1),
        tokens: Some(TokenCounts { counter: "c".into(), counts: vec![1, 2] }),
        model: Some("m".into()),
        finish_reason: Some("stop".into()),
        usage: Some(Usage::new(3, 4)),
        incomplete: true,
        metadata: Some(Metadata::new(r#"{ "a": 1 }"#).unwrap()),
    );
    chat.add_all([call_of("what is it?"), turn_of("between"), continuation, turn_of("x"), turn_of("y")]).await;
    chat.cut(NONE, summary_to(1, "before")).await;
    let before = chat.now().await;
    let log = chat.log().await;
    for (at, copied) in [(3, 3), (5, 5), (u64::MAX, 5), (1, 1)] {
        let copy = chat.other();
        assert_eq!(chat.conversation().fork(Seq::new(at), &copy.id).await.unwrap(), copied);
        copy.assert_log(&log[..copied]).await;
        let window = copy.now().await;
        assert_eq!(window.compaction, None);
        assert_ne!(window.revision.incarnation(), before.revision.incarnation());
        copy.add(turn_of("another way")).await;
    }
    assert_eq!((chat.now().await, chat.log().await), (before, log));
}

/// If there is nothing to copy, no conversation is created.
pub async fn a_fork_of_nothing_creates_nothing(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let copy = chat.other();
    assert_eq!(chat.conversation().fork(Seq::new(3), &copy.id).await.unwrap(), 0);
    chat.add_turns(1).await;
    assert_eq!(chat.conversation().fork(Seq::FIRST, &copy.id).await.unwrap(), 0);
    copy.assert_absent().await;
}

/// A fork into an existing conversation is refused, even into itself or an earlier fork. The existing one is not
/// changed.
pub async fn a_fork_does_not_change_existing_conversations(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(3).await;
    let other = chat.other();
    other.add_turns(1).await;
    let earlier = chat.other();
    chat.conversation().fork(Seq::new(1), &earlier.id).await.unwrap();
    for existing in [&other, &earlier, &chat] {
        let before = existing.now().await;
        for at in [0, 2] {
            let refused = chat.conversation().fork(Seq::new(at), &existing.id).await;
            assert!(matches!(refused, Err(ForkError::Exists)), "{refused:?}");
        }
        assert_eq!(existing.now().await, before);
    }
}

/// The handle keeps the last turns, or the last messages in whole turns. If there is no conversation, there is nothing
/// to remove.
pub async fn a_conversation_keeps_its_end(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let conversation = chat.store.pruning().conversation(&chat.id);
    assert_eq!(conversation.keep_last_turns(1).await.unwrap(), 0);
    assert_eq!(conversation.prune(PruneTo::LastTurns(1), Derived::Erase).await.unwrap(), None);
    chat.assert_absent().await;
    let log = chat.add_turns(5).await;
    for (turns, removed) in [(5, 0), (3, 2), (3, 0), (0, 2)] {
        assert_eq!(conversation.keep_last_turns(turns).await.unwrap(), removed);
    }
    assert_eq!(conversation.exchanges().await.unwrap(), log[4..]);

    chat.delete().await;
    let log = chat.add_turns(5).await;
    for (messages, removed) in [(10, 0), (7, 2), (6, 0), (1, 2)] {
        assert_eq!(conversation.keep_last_messages(messages).await.unwrap(), removed);
    }
    assert_eq!(conversation.exchanges().await.unwrap(), log[4..]);
}

/// The handle's messages are the remaining ones, even if the log is larger than a page of the store.
pub async fn the_messages_are_the_remaining_ones(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_all((0..10).map(large)).await;
    let conversation = chat.store.pruning().conversation(&chat.id);
    let pruned = conversation.prune(PruneTo::From(Seq::new(1)), Derived::Keep).await.unwrap();
    assert_eq!(pruned.map(|pruned| pruned.removed), Some(1));
    let messages = conversation.messages().await.unwrap();
    assert_eq!(messages.len(), 18);
    assert!(messages[0].text().starts_with("1 "));
}

/// A fork of a pruned log has the remaining exchanges, from position 0 on.
pub async fn a_pruned_log_is_forked(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_all([call_of("a call that is removed"), turn_of("x")]).await;
    chat.add_call(1).await;
    chat.add(result_for(Seq::FIRST)).await;
    chat.prune(PruneTo::From(Seq::new(1))).await;
    for (at, copied) in [(0, 0), (1, 0), (3, 2), (u64::MAX, 4)] {
        let copy = chat.other();
        assert_eq!(chat.conversation().fork(Seq::new(at), &copy.id).await.unwrap(), copied);
        let log = copy.log().await;
        assert_eq!(log.len(), copied);
        for (at, recorded) in log.iter().enumerate() {
            assert_eq!((recorded.seq, recorded.exchange.opens_turn()), (Seq::new(at as u64), at < 2));
        }
        if copied == 4 {
            assert_eq!(log[2].exchange.continues, Some(Seq::new(1)), "it continues the copied call");
            assert!(log[3].is_moved(), "{:?}", log[3]);
        }
    }
}

/// An import continues after the remaining exchanges, and continues their open turn.
pub async fn a_pruned_log_is_imported_into(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(3).await;
    chat.add_call(0).await;
    chat.prune(PruneTo::LastTurns(1)).await;
    let messages = [Message::tool("call-1", "42"), Message::assistant("It is 42.")];
    assert_eq!(chat.conversation().import(messages).await.unwrap(), 1);
    let log = chat.log().await;
    assert_eq!((log[1].seq, log[1].exchange.continues), (Seq::new(4), Some(Seq::new(3))));
}
