//! Unusual requests.

use serde_json::json;
use tests::{
    ABANDONED, BOTH_KINDS, Chat, NO_REPLY, Storage, history_error, input_error, log, over_every_store, prompts,
    request, user_call,
};
use tower_chat_history::{
    ConversationId, ExchangeId, HistoryError, HistoryOptions, HistoryStoreExt as _, InConversation, Message, Policies,
    error::InputError,
    policy::OnOpenTurn,
    report::TurnOutcome,
    store::{ConversationIdError, Origin},
};
use tower_chat_history_openai::CannotCarry;
use tower_chat_history_test::{Op, Reply};

over_every_store! {
    #[tokio::test]
    without_a_conversation_id_nothing_is_stored,
    no_input_after_the_head,
    tool_results_that_answer_no_open_call,
    tool_results_that_do_not_answer_all_open_calls,
    a_new_question_supersedes_open_calls,
    a_new_question_on_open_calls_is_rejected_by_policy,
    a_field_that_the_types_cannot_carry,
    the_same_exchange_id_later,
    the_same_exchange_id_at_the_same_time,
}

async fn without_a_conversation_id_nothing_is_stored(storage: Storage) {
    for kind in BOTH_KINDS {
        let chat = Chat::new(&storage, [Reply::text("a")]);
        let stateless = InConversation::stateless(request([Message::user("u")]));
        assert_eq!(chat.call(kind, stateless).await.unwrap(), "a");
        assert_eq!((storage.store.calls(Op::Load), storage.store.calls(Op::Append)), (0, 0));
    }
}

#[test]
fn a_malformed_empty_or_over_long_id_is_refused_when_it_is_made() {
    assert_eq!(ConversationId::new([] as [&str; 0]), Err(ConversationIdError::Empty));
    assert_eq!("".parse::<ConversationId>(), Err(ConversationIdError::Empty));
    assert_eq!(ConversationId::new(["a", ""]), Err(ConversationIdError::EmptyPart { position: 1 }));
    assert_eq!(ConversationId::new(["a"; 17]), Err(ConversationIdError::TooManyParts));
    assert_eq!(ConversationId::new(["a".repeat(1_025)]), Err(ConversationIdError::TooLong));
    assert_eq!("a b".parse::<ConversationId>(), Err(ConversationIdError::NotCanonical));
}

async fn no_input_after_the_head(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, []), storage.conversation());
        for head in [vec![], vec![Message::system("S"), Message::developer("D")]] {
            let error = chat.call(kind, InConversation::new(id.clone(), request(head))).await.unwrap_err();
            assert_eq!(*input_error(&error), InputError::Empty);
        }
        assert!(chat.llm.requests().is_empty());
        assert!(log(&storage.store, &id).await.is_empty());
    }
}

async fn tool_results_that_answer_no_open_call(storage: Storage) {
    for kind in BOTH_KINDS {
        let chat = Chat::new(&storage, [Reply::calls([("x", "f", "{}")]), Reply::text("a")]);
        let id = storage.conversation();
        let results = |ids: &[&str]| request(ids.iter().map(|id| Message::tool(id, "r")));
        let call = |ids: &[&str]| chat.call(kind, InConversation::new(id.clone(), results(ids)));
        let unexpected = |position, id: &str| InputError::UnexpectedResult { position, call_id: id.into() };

        // No call was made; a call with another id was made; the call was answered already.
        assert_eq!(*input_error(&call(&["x"]).await.unwrap_err()), unexpected(0, "x"));
        chat.ask(kind, &id, "u").await.unwrap();
        assert_eq!(*input_error(&call(&["x", "z"]).await.unwrap_err()), unexpected(1, "z"));
        call(&["x"]).await.unwrap();
        assert_eq!(*input_error(&call(&["x"]).await.unwrap_err()), unexpected(0, "x"));

        assert_eq!(chat.llm.requests().len(), 2, "the model is called only with valid results");
        assert_eq!(log(&storage.store, &id).await, ["user: u", "assistant calls x: ", "tool x: r", "assistant: a"]);
    }
}

async fn tool_results_that_do_not_answer_all_open_calls(storage: Storage) {
    for kind in BOTH_KINDS {
        let chat = Chat::new(&storage, [Reply::calls([("x", "f", "{}"), ("y", "g", "{}")])]);
        let id = storage.conversation();
        chat.ask(kind, &id, "u").await.unwrap();
        let half = InConversation::new(id.clone(), request([Message::tool("y", "r")]));
        let error = chat.call(kind, half).await.unwrap_err();
        assert_eq!(*input_error(&error), InputError::Unanswered { call_ids: vec!["x".into()] });
        assert_eq!(chat.llm.requests().len(), 1);
        assert_eq!(log(&storage.store, &id).await.len(), 2);
    }
}

async fn a_new_question_supersedes_open_calls(storage: Storage) {
    for kind in BOTH_KINDS {
        let chat = Chat::new(&storage, [Reply::calls([("x", "f", "{}")]), Reply::text("a")]);
        let id = storage.conversation();
        chat.ask(kind, &id, "u0").await.unwrap();
        assert_eq!(chat.ask(kind, &id, "u1").await.unwrap(), "a");
        let abandoned = format!("tool x: {ABANDONED}");
        assert_eq!(prompts(&chat.llm)[1], ["user: u0", "assistant calls x: ", &abandoned, NO_REPLY, "user: u1"]);
        let stored = ["user: u0", "assistant calls x: ", "user: u1", "assistant: a"];
        assert_eq!(log(&storage.store, &id).await, stored, "the log has the real messages only");
    }
}

async fn a_new_question_on_open_calls_is_rejected_by_policy(storage: Storage) {
    for kind in BOTH_KINDS {
        let options = HistoryOptions::new().policies(Policies::new().on_open_turn(OnOpenTurn::Reject));
        let replies = [Reply::calls([("x", "f", "{}"), ("y", "f", "{}")]), Reply::text("a")];
        let (chat, id) = (Chat::with_options(&storage, replies, options), storage.conversation());
        chat.ask(kind, &id, "u0").await.unwrap();
        let error = chat.ask(kind, &id, "u1").await.unwrap_err();
        assert_eq!(*input_error(&error), InputError::TurnOpen { calls: 2 });
        assert_eq!((chat.llm.requests().len(), log(&storage.store, &id).await.len()), (1, 2));

        let results = request([Message::tool("x", "r"), Message::tool("y", "r")]);
        assert_eq!(chat.call(kind, InConversation::new(id, results)).await.unwrap(), "a", "results continue the turn");
    }
}

async fn a_field_that_the_types_cannot_carry(storage: Storage) {
    for kind in BOTH_KINDS {
        let options = HistoryOptions::new().origin(Origin::unknown().provider("deepseek"));
        let (chat, id) = (Chat::with_options(&storage, [Reply::text("a")], options), storage.conversation());
        let call = json!({"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let reply = json!({"role": "assistant", "reasoning_content": "", "tool_calls": [call]});
        let messages = [Message::user("u"), Message::try_from(reply).unwrap()];
        storage.store.conversation(&id).import(messages).await.unwrap();

        let results = InConversation::new(id.clone(), request([Message::tool("x", "r")]));
        let error = chat.call(kind, results).await.unwrap_err();
        let error: &CannotCarry = error.downcast_ref().unwrap();
        assert_eq!((error.provider(), error.field()), ("deepseek", "reasoning_content"));
        assert_eq!((chat.llm.requests().len(), log(&storage.store, &id).await.len()), (0, 2));
    }
}

async fn the_same_exchange_id_later(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, [Reply::text("a0"), Reply::text("a1")]), storage.conversation());
        let call = || user_call(&id, "u0").exchange(ExchangeId::new("e-1").unwrap());
        chat.call(kind, call()).await.unwrap();
        for _ in 0..2 {
            let error = chat.call(kind, call()).await.unwrap_err();
            let HistoryError::AlreadyRecorded(recorded) = history_error(&error) else { panic!("{error}") };
            assert_eq!((recorded.seq.get(), recorded.exchange.id.as_str()), (0, "e-1"));
            assert_eq!(tests::prompt(&recorded.exchange.messages), ["user: u0", "assistant: a0"]);
            if chat.llm.requests().len() == 1 {
                // The id is found even if another exchange follows.
                chat.ask(kind, &id, "u1").await.unwrap();
            }
        }
        assert_eq!(chat.llm.requests().len(), 2);
        assert_eq!(log(&storage.store, &id).await, ["user: u0", "assistant: a0", "user: u1", "assistant: a1"]);
    }
}

async fn the_same_exchange_id_at_the_same_time(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, [Reply::text("one"), Reply::text("two")]), storage.conversation());
        let call = || user_call(&id, "u").exchange(ExchangeId::new("e-1").unwrap()).with_report();
        let ((first, first_report), (second, second_report)) = (call(), call());
        let (release_first, release_second) = (chat.hold_reply(), chat.hold_reply());
        let (one, two, ()) = tokio::join!(
            async {
                let reply = chat.call(kind, first).await.unwrap();
                drop(release_second);
                reply
            },
            async {
                chat.reached(1).await;
                chat.call(kind, second).await.unwrap()
            },
            async {
                chat.reached(2).await;
                drop(release_first);
            }
        );
        assert_eq!((one.as_str(), two.as_str()), ("one", "two"));
        let (first, second) = (first_report.await.unwrap(), second_report.await.unwrap());
        let TurnOutcome::Stored { revision, seq, .. } = first.outcome else { panic!("{first:?}") };
        let TurnOutcome::Duplicate { revision: same, seq: recorded } = second.outcome else { panic!("{second:?}") };
        assert_eq!((same, recorded), (revision, seq));
        assert_eq!(log(&storage.store, &id).await, ["user: u", "assistant: one"]);
    }
}
