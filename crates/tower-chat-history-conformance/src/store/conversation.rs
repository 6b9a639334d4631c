//! The conversation handle over this store: reading, importing, clearing and editing.

use super::support::*;

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

/// A log larger than a page of the store is listed as a whole.
pub async fn a_large_log_is_listed(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_all((0..10).map(large)).await;
    let messages = chat.conversation().messages().await.unwrap();
    assert_eq!(messages.len(), 20);
    let order: Vec<String> = messages.iter().step_by(2).map(|message| message.text()[..1].to_owned()).collect();
    assert_eq!(order.concat(), "0123456789");
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

/// The handle forks the current log, with what is right for the copy of its profile's compaction, and says in a label
/// where the copy is from. The log is not changed.
pub async fn a_conversation_is_forked(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme", "a"]);
    let log = chat.add_turns(5).await;
    let small = profile("small");
    let cuts = Cuts::new(with!(Cut::window_from(Seq::new(3)), cleared_before: Seq::new(5)))
        .replacing(Some(Cut::window_from(Seq::new(1))));
    chat.compact_as(&small, NONE, cuts.compact(small.clone(), NONE).unwrap()).await.unwrap();
    let before = chat.now().await;
    for (at, len) in [(5, 5), (4, 4), (3, 3), (1, 1), (u64::MAX, 5)] {
        let copy = owned.chat(&["acme", "copy", &at.to_string()]);
        let conversation = chat.store.forking().conversation(&chat.id).profile(small.clone());
        assert_eq!(conversation.fork(Seq::new(at), &copy.id).await.unwrap(), len);
        assert_eq!(copy.log().await, log[..len as usize]);
        let compact = cuts.truncated_to(at).map(|cuts| cuts.compact(small.clone(), NONE).unwrap());
        let expected = compact.map(|compact| compact.stored_as(NONE.next()));
        assert_eq!(copy.compaction_of(&small).await, expected);
        assert_eq!(copy.compaction().await, None);
        let from = owned.entry(&copy).await.labels.forked_from();
        assert_eq!(from, Some((chat.id.clone(), Seq::new(len))));
        copy.add(turn_of("another way")).await;
    }
    chat.assert_unchanged(&before).await;
}

/// If there is nothing to copy, the handle creates no conversation.
pub async fn a_fork_of_nothing_creates_nothing(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let copy = chat.other();
    let conversation = chat.store.forking().conversation(&chat.id);
    assert_eq!(conversation.fork(Seq::new(3), &copy.id).await.unwrap(), 0);
    chat.add_turns(1).await;
    assert_eq!(conversation.fork(Seq::FIRST, &copy.id).await.unwrap(), 0);
    copy.assert_absent().await;
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
