//! The place of recalled messages: before the input, next to the exchange, and in later prompts until a compaction.

use tower_chat_history::{
    HistoryStoreExt as _, Message, Reply,
    store::{Cuts, Seq},
};

use super::support::{Chat, ScriptedRecall, answer, block, id, question, recalled};
use crate::support::calls;

/// Returns a conversation whose window has moved.
async fn moved() -> Chat {
    let chat = Chat::new(ScriptedRecall::numbered());
    chat.until_moved().await;
    chat
}

#[tokio::test]
async fn recalled_messages_are_directly_before_the_input_and_in_the_window() {
    let chat = moved().await;
    let turn = chat.begin([question("one"), question("two")]).await;
    let [.., recalled, reply, one, two] = turn.context() else { panic!("four messages") };
    assert!(recalled.text().starts_with("recalled 0"));
    assert_eq!(reply, &Message::assistant("Understood."), "no question follows another one");
    assert_eq!((one, two), (&question("one"), &question("two")));
    assert_eq!(turn.input(), [question("one"), question("two")]);
    assert_eq!(turn.window().last(), Some(reply));
}

#[tokio::test]
async fn recalled_messages_are_stored_with_the_exchange_and_are_not_messages_of_the_log() {
    let chat = moved().await;
    let before = chat.window().await;
    let (context, report) = chat.turn("question").await;
    let stored = chat.last_exchange().await;
    let expected = block(context[context.len() - 3].text().as_ref(), before.compaction.unwrap().window_start);
    let stored_block = stored.recalled.unwrap();
    assert_eq!((&stored_block.message, &stored_block.citations), (&expected.message, &expected.citations));
    assert_eq!(stored_block.tokens.map(u64::from), Some(report.recall.as_ref().unwrap().tokens));
    assert_eq!(stored.messages, [question("question"), answer()]);
    let log = chat.store.conversation(&id()).messages().await.unwrap();
    assert_eq!(recalled(&log), [""; 0], "the log's messages are the caller's and the model's");
}

#[tokio::test]
async fn the_next_prompt_begins_with_the_previous_one_and_its_recalled_messages() {
    let chat = moved().await;
    let (first, _) = chat.turn("one").await;
    let (second, report) = chat.turn("two").await;
    assert!(!report.tokens.unwrap().compacted);
    let json = |messages: &[Message]| messages.iter().map(|message| message.json().to_owned()).collect::<Vec<_>>();
    assert_eq!(json(&second[..first.len()]), json(&first), "byte for byte");
    assert_eq!(second[first.len()], answer());
    let shown = recalled(&second);
    assert!(shown.len() == 2 && shown[0].starts_with("recalled 0") && shown[1].starts_with("recalled 1"));
}

#[tokio::test]
async fn a_continuation_repeats_the_recalled_messages_of_its_turn_and_does_not_search() {
    let chat = moved().await;
    let turn = chat.begin([question("one")]).await;
    let first = turn.context().to_vec();
    turn.commit(Reply::new(calls(&["x"]))).await.unwrap();
    let searches = chat.recall.searches().len();

    let turn = chat.begin([Message::tool("x", "r")]).await;
    assert_eq!(turn.context()[..first.len()], first);
    assert_eq!(turn.context()[first.len()..], [calls(&["x"]), Message::tool("x", "r")]);
    let report = turn.commit(Reply::new(answer())).await.unwrap();
    assert!(report.recall.is_none());
    assert_eq!(chat.recall.searches().len(), searches);
    assert_eq!(chat.last_exchange().await.recalled, None);
}

#[tokio::test]
async fn a_new_question_while_calls_are_open_has_recalled_messages_after_the_abandoned_calls() {
    let chat = moved().await;
    let turn = chat.begin([Message::user("one")]).await;
    turn.commit(Reply::new(calls(&["x"]))).await.unwrap();
    let turn = chat.begin([Message::user("two")]).await;
    let first = turn.context().to_vec();
    let [.., abandoned, reply, recalled, _, _] = &first[..] else { panic!("five messages") };
    assert!(abandoned.is_tool_result() && recalled.text().starts_with("recalled 1"));
    assert_eq!(reply, &Message::assistant("[no reply]"));
    turn.commit(Reply::new(Message::assistant("a"))).await.unwrap();
    let turn = chat.begin([Message::user("three")]).await;
    assert_eq!(turn.context()[..first.len()], first);
}

#[tokio::test]
async fn recalled_messages_stay_until_the_next_stored_compaction_and_prompts_are_prefixes_until_then() {
    let chat = moved().await;
    let (mut before, mut compactions, mut kept) = (Vec::new(), 0, 0);
    for number in 0..30 {
        let (context, report) = chat.turn(&format!("question {number}")).await;
        if report.tokens.unwrap().compacted {
            compactions += 1;
            assert_eq!(recalled(&context).len(), 1, "turn {number}: only those of this turn");
            assert!(report.tokens.unwrap().trimming.left_out_recalled);
            let cut = Cuts::read(&chat.window().await.compaction.unwrap()).unwrap().cut;
            assert_eq!(cut.recalled_from, chat.last().await.seq);
        } else if !before.is_empty() {
            assert!(context.starts_with(&before), "turn {number}");
            assert_eq!(recalled(&context).len(), recalled(&before).len() + 1);
            kept += 1;
        }
        before = context;
    }
    assert!(compactions > 3 && kept > 10, "{compactions} {kept}");
    let with_recalled = chat.log().await.iter().filter(|recorded| recorded.exchange.recalled.is_some()).count();
    assert_eq!(with_recalled, 30, "the log keeps them");
}

#[tokio::test]
async fn a_search_gets_the_citations_that_the_prompt_shows_and_the_input() {
    let chat = moved().await;
    let fillers = chat.recall.searches().len();
    for number in 0..20 {
        let (context, _) = chat.turn(&format!("question {number}")).await;
        let searches = chat.recall.searches();
        let search = &searches[fillers + number];
        assert_eq!(search.input, [question(&format!("question {number}"))]);
        assert_eq!(search.shown.len(), recalled(&context).len() - 1, "those of this turn are not shown yet");
        assert!(search.shown.iter().all(|citation| citation.seq < search.before));
        let sent_from =
            chat.log().await.iter().find(|recorded| context.contains(&recorded.exchange.messages[0])).unwrap().seq;
        assert_eq!(search.before, sent_from, "the prompt contains the log from there on");
        assert_eq!(search.revision.unwrap().version(), chat.last().await.seq.get());
    }
}

#[tokio::test]
async fn only_exchanges_before_the_calls_own_compaction_are_offered() {
    let chat = moved().await;
    let stored = |window: &tower_chat_history::store::Window| window.compaction.as_ref().unwrap().window_start;
    let mut start: Seq = stored(&chat.window().await);
    for number in 0..20 {
        let (_, report) = chat.turn(&format!("question {number}")).await;
        let now = stored(&chat.window().await);
        assert_eq!(now > start, report.tokens.unwrap().compacted);
        assert_eq!(chat.recall.searches().last().unwrap().before, now);
        start = now;
    }
}
