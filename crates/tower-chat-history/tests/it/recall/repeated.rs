//! Calls and saves that are repeated, and calls of which less or something else is stored.

use tower_chat_history::{
    CallOptions, ExchangeId, HistoryError, Message, Reply, Turn, TurnInput,
    report::{NotStored, TurnOutcome},
};
use tower_chat_history_test::{Fault, Op};

use super::support::{Chat, ScriptedRecall, answer, id, question, recalled};

/// Returns a conversation whose window has moved.
async fn moved() -> Chat {
    let chat = Chat::new(ScriptedRecall::numbered());
    chat.until_moved().await;
    chat
}

/// Returns the recalled messages of a turn. The constant reply to them is the last message before the input.
fn shown(turn: &Turn) -> Message {
    let [.., shown, _] = turn.window() else { panic!("two messages") };
    shown.clone()
}

#[tokio::test]
async fn a_call_that_is_already_recorded_does_not_search() {
    let chat = moved().await;
    let exchange = ExchangeId::generate();
    let input = || TurnInput::new(id(), [question("one")]).exchange(exchange.clone());
    chat.engine.begin(input()).await.unwrap().commit(Reply::new(answer())).await.unwrap();
    let (searches, stored) = (chat.recall.searches().len(), chat.last().await);
    let error = chat.engine.begin(input()).await.unwrap_err();
    let HistoryError::AlreadyRecorded(recorded) = error else { panic!("{error}") };
    assert_eq!(recorded.exchange.recalled, stored.exchange.recalled);
    assert!(recorded.exchange.recalled.is_some());
    assert_eq!(chat.recall.searches().len(), searches);
}

#[tokio::test(start_paused = true)]
async fn a_save_that_is_retried_stores_the_messages_that_were_shown() {
    for lost in [false, true] {
        let chat = moved().await;
        if lost {
            chat.store.lose_answers(Op::Append, 2);
        } else {
            chat.store.fail(Op::Append, 2, Fault::Unavailable);
        }
        let exchange = ExchangeId::generate();
        let turn = chat.engine.begin(TurnInput::new(id(), [question("one")]).exchange(exchange)).await.unwrap();
        let shown = shown(&turn);
        let (searches, appends) = (chat.recall.searches().len(), chat.store.calls(Op::Append));
        let report = turn.commit(Reply::new(answer())).await.unwrap();
        assert!(matches!(report.outcome, TurnOutcome::Stored { .. }));
        assert_eq!(chat.store.calls(Op::Append) - appends, 3);
        assert_eq!(chat.last_exchange().await.recalled.unwrap().message, shown);
        assert_eq!(chat.recall.searches().len(), searches);
    }
}

#[tokio::test]
async fn the_first_of_two_calls_with_one_id_keeps_its_messages() {
    let chat = moved().await;
    let exchange = ExchangeId::generate();
    let input = || TurnInput::new(id(), [question("one")]).exchange(exchange.clone());
    let (first, second) = (chat.engine.begin(input()).await.unwrap(), chat.engine.begin(input()).await.unwrap());
    let of_first = shown(&first);
    assert_ne!(shown(&second), of_first);
    first.commit(Reply::new(answer())).await.unwrap();
    let report = second.commit(Reply::new(answer())).await.unwrap();
    assert!(matches!(report.outcome, TurnOutcome::Duplicate { .. }));
    assert_eq!(chat.last_exchange().await.recalled.unwrap().message, of_first);
}

#[tokio::test]
async fn a_call_that_is_not_stored_shows_messages_and_stores_none() {
    let chat = moved().await;
    let before = chat.window().await;
    let input = TurnInput::new(id(), [question("one")]).options(CallOptions::new().dont_store());
    let turn = chat.engine.begin(input).await.unwrap();
    assert_eq!(recalled(turn.context()).len(), 1);
    let report = turn.commit(Reply::new(answer())).await.unwrap();
    assert!(matches!(report.outcome, TurnOutcome::NotStored(NotStored::Asked)));
    assert_eq!(report.recall.as_ref().unwrap().outcome.kind(), "shown");
    assert_eq!(chat.window().await, before);
}

#[tokio::test]
async fn a_call_without_a_reply_stores_no_messages() {
    let chat = moved().await;
    let before = chat.window().await;
    let turn = chat.begin([question("one")]).await;
    assert_eq!(recalled(turn.context()).len(), 1);
    turn.fail("model");
    let report = chat.begin([question("one")]).await.commit(Reply::default()).await.unwrap();
    assert!(matches!(report.outcome, TurnOutcome::NotStored(NotStored::NoReply)));
    assert_eq!(chat.window().await, before);
}

#[tokio::test]
async fn messages_stored_in_place_of_the_input_have_the_recalled_messages_before_them() {
    let chat = moved().await;
    let instead = CallOptions::new().store_instead([Message::user("short")]);
    let turn = chat.engine.begin(TurnInput::new(id(), [question("long")]).options(instead)).await.unwrap();
    let shown = shown(&turn);
    turn.commit(Reply::new(answer())).await.unwrap();
    let stored = chat.last_exchange().await;
    assert_eq!((stored.recalled.unwrap().message, &stored.messages[0]), (shown.clone(), &Message::user("short")));
    let turn = chat.begin([question("next")]).await;
    let at = turn.context().iter().position(|message| *message == shown).unwrap();
    assert_eq!(turn.context()[at + 2..at + 4], [Message::user("short"), answer()]);
}

#[tokio::test]
async fn a_reply_that_broke_off_is_stored_with_the_recalled_messages_and_a_repeated_call_searches_again() {
    let chat = moved().await;
    let exchange = ExchangeId::generate();
    let input = || TurnInput::new(id(), [question("one")]).exchange(exchange.clone());
    let turn = chat.engine.begin(input()).await.unwrap();
    let first = turn.context().to_vec();
    let mut reply = Reply::new(Message::assistant("part"));
    reply.incomplete = true;
    turn.commit(reply).await.unwrap();
    let broken = chat.last_exchange().await;
    assert_eq!((broken.incomplete, broken.recalled.unwrap().message), (true, first[first.len() - 3].clone()));

    let turn = chat.engine.begin(input()).await.unwrap();
    assert!(turn.context().starts_with(&first), "the log has the first attempt");
    assert_eq!(recalled(turn.context()).len(), recalled(&first).len() + 1);
    assert!(matches!(turn.commit(Reply::new(answer())).await.unwrap().outcome, TurnOutcome::Stored { .. }));
}

#[tokio::test]
async fn a_repeated_answer_to_tool_calls_keeps_the_recalled_messages_of_its_turn() {
    let chat = moved().await;
    chat.begin([question("one")]).await.commit(Reply::new(crate::support::calls(&["x"]))).await.unwrap();
    let turn = chat.begin([Message::tool("x", "r")]).await;
    let first = turn.context().to_vec();
    let mut reply = Reply::new(Message::assistant("part"));
    reply.incomplete = true;
    turn.commit(reply).await.unwrap();
    let turn = chat.begin([Message::tool("x", "r")]).await;
    assert_eq!(turn.context(), first, "the attempt that broke off is replaced");
}
