//! Calls without a search.

use tower_chat_history::{
    HistoryOptions, Message, Policies, Reply, TurnInput, engine::ToolResults, policy::OnLoadFailure,
    recall::RecallOptions, report::HistoryStatus,
};
use tower_chat_history_test::{Fault, Op};

use super::support::{Chat, ScriptedRecall, answer, budget, id, options, question};
use crate::support::calls;

#[tokio::test]
async fn a_log_within_the_window_is_not_searched() {
    let chat = Chat::new(ScriptedRecall::numbered());
    for number in 0..4 {
        let (context, report) = chat.turn("question").await;
        assert_eq!((context.len(), report.recall.is_none()), (2 * number + 1, true));
    }
    assert!(chat.recall.searches().is_empty());
    assert!(chat.log().await.iter().all(|recorded| recorded.exchange.recalled.is_none()));
}

#[tokio::test]
async fn an_input_with_tool_results_is_not_searched() {
    let chat = Chat::new(ScriptedRecall::numbered());
    chat.until_moved().await;
    chat.begin([question("one")]).await.commit(Reply::new(calls(&["x"]))).await.unwrap();
    let searches = chat.recall.searches().len();
    // A question after the results is part of the same turn.
    let turn = chat.begin([Message::tool("x", "r"), question("and?")]).await;
    assert!(turn.commit(Reply::new(answer())).await.unwrap().recall.is_none());
    assert_eq!(chat.recall.searches().len(), searches);
}

#[tokio::test]
async fn a_call_without_input_is_not_searched() {
    let chat = Chat::new(ScriptedRecall::numbered());
    chat.until_moved().await;
    chat.begin([question("one")]).await.commit(Reply::new(calls(&["x"]))).await.unwrap();
    chat.engine.store_results(ToolResults::new(id(), [Message::tool("x", "r")])).await.unwrap();
    let searches = chat.recall.searches().len();
    let report = chat.begin([]).await.commit(Reply::new(answer())).await.unwrap();
    assert!(report.recall.is_none());
    assert_eq!(chat.recall.searches().len(), searches);
}

#[tokio::test]
async fn an_absent_or_unavailable_history_is_not_searched() {
    let recall = ScriptedRecall::numbered();
    let policies = Policies::new().on_load_failure(OnLoadFailure::CallWithoutHistory);
    let chat = Chat::with_options(recall.clone(), options(&recall).policies(policies));
    let (_, report) = chat.turn("first").await;
    assert_eq!((report.history, report.recall.is_none()), (HistoryStatus::Absent, true));
    chat.until_moved().await;
    let searches = recall.searches().len();
    chat.store.fail(Op::Load, 1, Fault::Unavailable);
    let resent = TurnInput::new(id(), [question("now")]).transcript([question("before"), answer()]);
    let turn = chat.engine.begin(resent).await.unwrap();
    assert_eq!(turn.context().len(), 3);
    let report = turn.commit(Reply::new(answer())).await.unwrap();
    assert_eq!((report.history, report.recall.is_none()), (HistoryStatus::Unavailable, true));
    assert_eq!(recall.searches().len(), searches);
}

#[tokio::test]
async fn a_prompt_without_room_is_not_searched() {
    let chat = Chat::new(ScriptedRecall::numbered());
    chat.until_moved().await;
    let searches = chat.recall.searches().len();
    // 1,780 of 1,800 tokens: less than even a short message needs.
    let turn = chat.begin([Message::user("q".repeat(1_770 * 4))]).await;
    let report = turn.commit(Reply::new(answer())).await.unwrap();
    assert!(report.recall.is_none());
    assert_eq!(chat.recall.searches().len(), searches);
}

#[tokio::test]
async fn an_allowance_below_the_size_of_one_message_disables_the_search() {
    let recall = ScriptedRecall::numbered();
    for few in [RecallOptions::new(recall.clone()).percent(0), RecallOptions::new(recall.clone()).max_tokens(40)] {
        let chat = Chat::with_options(recall.clone(), HistoryOptions::new().context(budget()).recall(few));
        chat.until_moved().await;
        chat.turn("question").await;
    }
    assert!(recall.searches().is_empty());
}

#[tokio::test]
async fn without_recall_nothing_is_reported() {
    let recall = ScriptedRecall::numbered();
    let chat = Chat::with_options(recall.clone(), HistoryOptions::new().context(budget()));
    chat.until_moved().await;
    let (_, report) = chat.turn("question").await;
    assert!(report.recall.is_none() && report.tokens.unwrap().prompt.recalled == 0);
}
