//! A search that covers other conversations.

use tower_chat_history::{
    ConversationId, Message, Policies, Reply, TurnInput,
    policy::OnLoadFailure,
    report::{HistoryStatus, RecallOutcome},
    store::{Citation, Recalled, Seq},
};
use tower_chat_history_test::{Fault, Op};

use super::support::{Answer, Chat, ScriptedRecall, answer, id, options, question};
use crate::support::calls;

fn other() -> ConversationId {
    ConversationId::new(["other"]).unwrap()
}

/// A search that shows a message of another conversation.
fn quoting(of: ConversationId) -> ScriptedRecall {
    let quote = move |number: usize| {
        let citation = Citation::new(Seq::new(1_000), 0..1).of(of.clone());
        Recalled::new(format!("quote {number}"), vec![citation])
    };
    ScriptedRecall::new(move |number, _| Answer::Shows(quote(number))).covering_others()
}

#[tokio::test]
async fn it_is_made_for_each_question_and_for_the_first_turn_of_a_conversation() {
    let chat = Chat::new(quoting(other()));
    for number in 0..3 {
        let (context, report) = chat.turn("question").await;
        assert_eq!(context[context.len() - 3].text(), format!("quote {number}"));
        let report = report.recall.clone().unwrap();
        assert_eq!((report.exchanges, report.messages, report.conversations), (1, 1, 1));
        assert!(matches!(report.outcome, RecallOutcome::Shown));
    }
    let searches = chat.recall.searches();
    assert_eq!(searches[0].revision, None, "the conversation does not exist yet");
    assert!(searches.iter().all(|search| search.before == Seq::FIRST));
    let shown = Citation::new(Seq::new(1_000), 0..1).of(other());
    let all_shown: Vec<Vec<Citation>> = (0..3).map(|number| vec![shown.clone(); number]).collect();
    assert_eq!(searches.iter().map(|search| search.shown.clone()).collect::<Vec<_>>(), all_shown);
    let log = chat.log().await;
    assert!(log.iter().all(|recorded| recorded.exchange.recalled.as_ref().unwrap().citations == [shown.clone()]));
}

#[tokio::test]
async fn it_is_not_made_for_tool_results_or_without_history() {
    let recall = quoting(other());
    let policies = Policies::new().on_load_failure(OnLoadFailure::CallWithoutHistory);
    let chat = Chat::with_options(recall.clone(), options(&recall).policies(policies));
    chat.begin([question("one")]).await.commit(Reply::new(calls(&["x"]))).await.unwrap();
    let turn = chat.begin([Message::tool("x", "r")]).await;
    assert!(turn.commit(Reply::new(answer())).await.unwrap().recall.is_none());
    assert_eq!(recall.searches().len(), 1);
    chat.store.fail(Op::Load, 1, Fault::Unavailable);
    let resent = TurnInput::new(id(), [question("now")]).transcript([question("before"), answer()]);
    let report = chat.engine.begin(resent).await.unwrap().commit(Reply::new(answer())).await.unwrap();
    assert_eq!((report.history, report.recall.is_none()), (HistoryStatus::Unavailable, true));
    assert_eq!(recall.searches().len(), 1);
}

#[tokio::test]
async fn the_conversation_itself_is_no_other_one() {
    let chat = Chat::new(quoting(id()));
    let (context, report) = chat.turn("question").await;
    assert_eq!(context.len(), 1);
    let RecallOutcome::Failed(error) = report.recall.clone().unwrap().outcome else {
        panic!("the prompt has the whole log")
    };
    assert_eq!(error.kind(), "in_window");
}
