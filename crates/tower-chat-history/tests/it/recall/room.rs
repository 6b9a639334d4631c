//! Calls that fit only without recalled messages, or only without the room for them.

use tower_chat_history::{
    ContextBudget, HistoryOptions, Message, Reply,
    recall::RecallOptions,
    store::{Cuts, Seq},
    summary::{Summaries, SummarizeWhen},
};

use super::support::{Answer, Chat, ScriptedRecall, answer, block, options, question, recalled};
use crate::{summaries::support::Facts, support::calls};

/// A search that shows 200 tokens.
fn large() -> ScriptedRecall {
    ScriptedRecall::after_fillers(|_, search| {
        Answer::Shows(block(&format!("recalled {}", "r".repeat(700)), search.before))
    })
}

/// Returns a message of about this many tokens.
fn sized(tokens: usize) -> Message {
    Message::user("q".repeat(tokens * 4))
}

#[tokio::test]
async fn within_a_turn_recalled_messages_are_left_out_for_results_that_do_not_fit_with_them() {
    let chat = Chat::new(large());
    chat.until_moved().await;
    let turn = chat.begin([sized(100)]).await;
    assert_eq!(recalled(turn.context()).len(), 1);
    turn.commit(Reply::new(calls(&["x"]))).await.unwrap();
    let opening = chat.last().await.seq;

    let results = Message::tool("x", "r".repeat(1_600 * 4));
    let turn = chat.begin([results.clone()]).await;
    assert_eq!(turn.context(), [sized(100), calls(&["x"]), results.clone()], "only what must be sent");
    let first = turn.context().to_vec();
    let report = turn.commit(Reply::new(answer())).await.unwrap();
    let sizes = report.tokens.unwrap();
    assert!(sizes.trimming.left_out_recalled && sizes.compacted && sizes.prompt.total() <= sizes.limit);
    assert_eq!(Cuts::read(&chat.window().await.compaction.unwrap()).unwrap().cut.recalled_from, opening.next());
    assert!(chat.log().await[opening.get() as usize].exchange.recalled.is_some(), "the log keeps them");

    let turn = chat.begin([question("next")]).await;
    assert!(!turn.context().starts_with(&first) || recalled(&first).is_empty());
    assert_eq!(recalled(turn.context()).len(), 1, "only those of the new turn");
}

#[tokio::test]
async fn within_a_turn_recalled_messages_stay_if_other_turns_can_be_left_out() {
    let chat = Chat::new(large());
    chat.until_moved().await;
    let turn = chat.begin([sized(100)]).await;
    let opening: Vec<Message> = turn.context()[turn.context().len() - 3..].to_vec();
    turn.commit(Reply::new(calls(&["x"]))).await.unwrap();
    let turn = chat.begin([Message::tool("x", "r".repeat(1_000 * 4))]).await;
    let context = turn.context();
    let begins = context.windows(3).any(|three| three == opening);
    assert!(begins, "the turn keeps its recalled messages");
    turn.commit(Reply::new(answer())).await.unwrap();
}

#[tokio::test]
async fn an_input_that_fits_only_without_the_reserved_room_is_sent_and_nothing_is_stored_for_it() {
    let chat = Chat::new(large());
    for _ in 0..5 {
        chat.turn("filler").await;
    }
    chat.cut(Seq::new(4)).await;
    chat.turn("question").await;
    let before = chat.window().await;
    assert!(before.exchanges.last().unwrap().exchange.recalled.is_some());
    // 1,790 of 1,800 tokens: the window is left out for this call only, and there is no room for recalled messages.
    let turn = chat.begin([sized(1_780)]).await;
    assert_eq!(turn.context().len(), 1);
    let report = turn.commit(Reply::new(answer())).await.unwrap();
    let sizes = report.tokens.unwrap();
    assert!(sizes.for_this_call && report.recall.is_none());
    assert_eq!(chat.window().await.compaction, before.compaction, "the next calls have the whole window again");
}

#[tokio::test]
async fn a_call_that_fits_after_a_smaller_room_for_summaries_stores_no_position_of_recalled_messages() {
    let recall = ScriptedRecall::new(|_, _| Answer::Nothing);
    let summaries = Summaries::new(Facts::new()).when(SummarizeWhen::BeforeCall).max_tokens(300);
    let chat = Chat::with_options(recall.clone(), options(&recall).summaries(summaries));
    chat.turn("question").await;
    // With 300 tokens for a summary, it does not fit.
    let turn = chat.begin([sized(1_700)]).await;
    let report = turn.commit(Reply::new(answer())).await.unwrap();
    assert!(!report.tokens.unwrap().trimming.left_out_recalled);
    let compaction = chat.window().await.compaction;
    let recalled_from = compaction.map(|compaction| Cuts::read(&compaction).unwrap().cut.recalled_from);
    assert_eq!(recalled_from.unwrap_or_default(), Seq::FIRST, "there are no recalled messages");
}

#[tokio::test]
async fn a_reply_is_not_shortened_for_the_reserved_room() {
    let recall = ScriptedRecall::new(|_, _| Answer::Nothing);
    let budget = ContextBudget::tokens(2_000).reply_reserve(200).shrink_reply_to(50).calibrate(false);
    let options = HistoryOptions::new().context(budget).recall(RecallOptions::new(recall.clone()));
    let chat = Chat::with_options(recall, options);
    let mut near = 0;
    for number in 0..200 {
        let (_, report) = chat.turn(&format!("question {}", "w".repeat(number * 37 % 410))).await;
        let sizes = report.tokens.unwrap();
        if sizes.prompt.total() <= sizes.limit {
            assert_eq!(sizes.reply_limit, None, "turn {number}: {} of {}", sizes.prompt.total(), sizes.limit);
            near += usize::from(sizes.prompt.total() + 54 > sizes.limit);
        }
    }
    assert!(near > 0);
}

#[tokio::test]
async fn a_call_that_is_not_stored_leaves_recalled_messages_out_for_itself_only() {
    let chat = Chat::new(large());
    chat.until_moved().await;
    let turn = chat.begin([sized(100)]).await;
    turn.commit(Reply::new(calls(&["x"]))).await.unwrap();
    let before = chat.window().await;

    let options = tower_chat_history::CallOptions::new().dont_store();
    let input = [Message::tool("x", "r".repeat(1_600 * 4))];
    let input = tower_chat_history::TurnInput::new(super::support::id(), input).options(options);
    let turn = chat.engine.begin(input).await.unwrap();
    assert_eq!(recalled(turn.context()), [""; 0]);
    turn.commit(Reply::new(answer())).await.unwrap();
    assert_eq!(chat.window().await, before);
    let turn = chat.begin([Message::tool("x", "r")]).await;
    assert_eq!(recalled(turn.context()).len(), 1);
}
