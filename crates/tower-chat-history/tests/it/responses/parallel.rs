//! Calls at the same time that answer the same calls, and answers that break off and are sent again.

use tower_chat_history::{
    ContextBudget, ContextOptions, HistoryStoreExt as _, budget::Watermarks, dialect::OpenAiResponses,
};
use tower_chat_history_test::responses::Say;

use super::{
    one,
    talk::{Failure, Figures, RESULT, Talk, kind},
};

impl Talk {
    /// Makes two calls at the same time with the outputs of all open calls. Their responses are stored in this order.
    pub(super) async fn answer_twice(&mut self, scripts: [&[Say]; 2], figures: &Figures) -> Result<(), Failure> {
        if self.results.is_empty() {
            return Ok(());
        }
        let mut called = Vec::new();
        for script in scripts {
            // A compaction that would hide the other response is left out, and so is the reasoning that needs it.
            self.keeps_reasoning &= !script.contains(&Say::Compaction);
            called.push(self.begin(&self.results.clone(), script).await?);
        }
        let mut results = Vec::new();
        for called in called {
            results.extend(self.commit(called, false, figures).await?.answers(RESULT));
        }
        // The second response can close the calls of the first one.
        let open = self.store.conversation(&self.id).open_calls().await.map_err(Failure::other)?;
        let mut open: Vec<_> = open.iter().map(|call| call.call_id().clone()).collect();
        self.results.clear();
        for result in results {
            let answers = self.read(&result)?.answers().to_vec();
            if let Some(at) = open.iter().position(|id| answers.contains(id)) {
                open.remove(at);
                self.results.push(result);
            }
        }
        figures.count("calls of a response that another one overtook", !self.results.is_empty());
        if open.is_empty() { Ok(()) } else { Err(Failure::Other(format!("{open:?}: open, but never made"))) }
    }

    /// Answers all open calls. Of the response, only the text before the first call arrives, and at most this number of
    /// items. If there is none, nothing is stored.
    pub(super) async fn answer_interrupted(
        &mut self,
        script: &[Say],
        items: usize,
        figures: &Figures,
    ) -> Result<(), Failure> {
        if self.results.is_empty() {
            return Ok(());
        }
        let mut called = self.begin(&self.results.clone(), script).await?;
        let arrived = script.iter().take(items).take_while(|say| !matches!(say, Say::Call { .. })).count();
        // Reasoning needs the next item.
        let last = script[..arrived].iter().rposition(|say| !matches!(say, Say::Reasoning(_)));
        called.made.output.truncate(last.map_or(0, |last| last + 1));
        if script[..arrived].iter().any(|say| matches!(say, Say::Message { .. })) {
            self.commit(called, true, figures).await?;
            figures.count("interrupted answers", true);
        }
        Ok(())
    }
}

/// Answers a call twice at the same time, with these replies, then one of the calls of the replies twice: the first
/// response breaks off.
async fn repeated_after(replies: [&[Say]; 2], watermarks: Watermarks) -> Result<(), Failure> {
    let (call, figures) = (|id: &str| Say::call(id, "f", "{}"), Figures::default());
    let context = ContextOptions::new().budget(ContextBudget::tokens(1_000_000)).watermarks(watermarks);
    let mut talk = Talk::new(&OpenAiResponses, one().context(context));
    talk.ask(&[Say::text("Well.")]).await?;
    talk.ask(&[call("a")]).await?;
    talk.answer_twice(replies, &figures).await?;
    assert_eq!(talk.results.len(), 1);
    talk.answer_interrupted(&[Say::text("It broke"), Say::text("off.")], 1, &figures).await?;
    talk.answer(&[Say::text("So.")], None).await?;
    let sent = talk.next_prompt().await;
    assert!(!sent.iter().any(|item| item.contains("It broke")), "the reply that broke off was replaced: {sent:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn reasoning_is_left_out_with_a_compaction_that_would_hide_a_parallel_response() {
    let mut talk = Talk::new(&OpenAiResponses, one());
    talk.ask(&[Say::call("a", "f", "{}")]).await.unwrap();
    let compacts = [Say::text("I see."), Say::reasoning(), Say::reasoning(), Say::Compaction, Say::text("So.")];
    talk.answer_twice([&[Say::text("I know.")], &compacts], &Figures::default()).await.unwrap();
    let kinds: Vec<String> = talk.next_prompt().await.iter().map(|item| kind(item)).collect();
    let expected = ["message", "function_call", "function_call_output", "message", "message", "message", "message"];
    assert_eq!(kinds, expected);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_broke_off_is_sent_again_with_its_call_after_parallel_responses() {
    let (calls, says) = ([Say::call("b", "f", "{}")], [Say::text("I know.")]);
    for messages in 1..=12 {
        for replies in [[&calls, &says], [&says, &calls]] {
            let outcome = repeated_after(replies.map(|reply| &reply[..]), Watermarks::last_messages(messages)).await;
            assert!(outcome.is_ok(), "{messages} messages, {replies:?}: {outcome:?}");
        }
    }
}
