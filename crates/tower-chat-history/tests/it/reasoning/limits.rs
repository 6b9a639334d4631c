//! Turns with bound reasoning above the load limit or the budget.

use tower_chat_history::{
    ContextBudget, ContextOptions, HistoryError, HistoryOptions, Reply, TurnInput,
    budget::{Watermark, Watermarks},
    store::LoadLimit,
};

use super::{Talk, answers, asks, question, result};

#[tokio::test(start_paused = true)]
async fn a_turn_with_bound_reasoning_continues_beyond_the_load_limit() {
    let context = ContextOptions::new().load_limit(LoadLimit::new(8, 1 << 20).unwrap());
    let mut talk = Talk::new(HistoryOptions::new().context(context));
    talk.call(question(), &answers()).await;
    talk.call(question(), &asks()).await;
    for _ in 0..2 {
        let report = talk.call(result(), &asks()).await;
        assert_eq!((report.reasoning_left_out, report.truncated), (0, false));
    }
    assert_eq!(talk.provider.counts().missing, 0);
    // The next turn has the cut that the limit requires.
    assert!(talk.call(question(), &answers()).await.truncated);
}

#[tokio::test(start_paused = true)]
async fn a_turn_with_bound_reasoning_continues_after_a_turn_above_the_load_limit() {
    let context = ContextOptions::new().load_limit(LoadLimit::new(8, 1 << 20).unwrap());
    let mut talk = Talk::new(HistoryOptions::new().context(context));
    for turns in 0..2 {
        for message in std::iter::once(question()).chain((0..12).map(|_| result())) {
            let report = talk.call(message, &asks()).await;
            // The turn before is loaded whole until this turn ends.
            assert_eq!((report.reasoning_left_out, report.messages_sent > 37 * turns), (0, true));
        }
        talk.call(result(), &answers()).await;
    }
    assert_eq!(talk.provider.counts().missing, 0);
}

#[tokio::test(start_paused = true)]
async fn a_turn_with_bound_reasoning_that_does_not_fit_is_an_error_that_says_so() {
    let budget = ContextBudget::tokens(260).reply_reserve(20).calibrate(false);
    let mut talk = Talk::new(HistoryOptions::new().context(budget));
    talk.call(question(), &asks()).await;
    for _ in 0..30 {
        match talk.try_call(result(), &asks()).await {
            Ok(_) => {}
            Err(HistoryError::DoesNotFit(error)) => {
                assert!(error.turn_is_bound && error.to_string().contains("bound to the whole prompt"), "{error}");
                assert!(error.to_string().contains("let the provider drop blocks"), "{error}");
                // A new question ends the turn.
                assert!(talk.call(question(), &answers()).await.reasoning_left_out > 0);
                return;
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the turn never became too large");
}

#[tokio::test(start_paused = true)]
async fn a_turn_loses_bound_reasoning_that_does_not_fit_if_the_provider_may_drop_it() {
    let budget = ContextBudget::tokens(260).reply_reserve(20).calibrate(false);
    let mut talk = Talk::new(HistoryOptions::new().context(budget));
    talk.may_drop_reasoning = true;
    talk.call(question(), &asks()).await;
    let mut left_out = 0;
    for _ in 0..30 {
        left_out += talk.call(result(), &asks()).await.reasoning_left_out;
    }
    assert!(left_out > 0);
    talk.call(result(), &answers()).await;
    talk.call(question(), &answers()).await;
}

#[tokio::test(start_paused = true)]
async fn after_reasoning_was_dropped_prompts_begin_with_the_prompt_before_also_without_new_reasoning() {
    let budget = ContextBudget::tokens(400).reply_reserve(20).calibrate(false);
    let mut talk = Talk::new(HistoryOptions::new().context(budget));
    talk.may_drop_reasoning = true;
    talk.call(question(), &asks()).await;
    let (mut before, mut since) = (Vec::new(), None);
    // The reply to the trimmed prompt has no reasoning, and neither have the next ones.
    while since != Some(3) {
        let mut input = TurnInput::new(talk.id.clone(), [result()]);
        input.request.tools = Some(talk.tools.to_owned());
        input.request.may_drop_reasoning = true;
        let head = input.request.digest();
        let turn = talk.engine.begin(input).await.unwrap();
        let sent = turn.context().to_vec();
        match &mut since {
            Some(calls) => {
                assert!(sent.starts_with(&before), "{calls} calls after the first trimmed prompt");
                *calls += 1;
            }
            None if !sent.starts_with(&before) => since = Some(0),
            None => {}
        }
        before = sent;
        let says = if since.is_some() { &asks()[1..] } else { &asks()[..] };
        let reply = talk.provider.reply(head, turn.context(), says).unwrap();
        turn.commit(Reply::of(reply)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_fits_keeps_its_reasoning_although_the_provider_may_drop_it() {
    let watermarks = Watermarks::new(Watermark::Percent(50), Watermark::Percent(30)).unwrap();
    let budget = ContextBudget::tokens(1_000).reply_reserve(20).calibrate(false);
    let context = ContextOptions::from(budget).watermarks(watermarks);
    let mut talk = Talk::new(HistoryOptions::new().context(context));
    talk.may_drop_reasoning = true;
    talk.call(question(), &asks()).await;
    let mut largest = 0;
    while largest < 700 {
        let report = talk.call(result(), &asks()).await;
        assert_eq!(report.reasoning_left_out, 0, "after {largest} tokens");
        largest = report.tokens.unwrap().prompt.total();
    }
}
