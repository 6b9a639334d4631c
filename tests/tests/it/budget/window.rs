//! The source of a call's context window, and budgets that nothing fits.

use tower_chat_history::{
    ContextBudget, ContextOptions, ConversationId, Engine, HistoryError, HistoryOptions, MemoryStore, Message, Reply,
    TurnInput, TurnReport,
    budget::{ModelLimits, Watermarks, WindowSource},
    tokens::per_text,
};

async fn call(options: HistoryOptions, model: Option<&str>, text: &str) -> Result<TurnReport, HistoryError> {
    let engine = Engine::with_options(MemoryStore::new(), options);
    let mut input = TurnInput::new(ConversationId::new(["window"]).unwrap(), [Message::user(text)]);
    input.request.model = model.map(str::to_owned);
    let turn = engine.begin(input).await?;
    Ok(TurnReport::clone(&*turn.commit(Reply::new(Message::assistant("a"))).await.unwrap()))
}

#[tokio::test]
async fn the_report_names_the_source_of_the_limit() {
    let by_model = ContextBudget::by_model;
    for (budget, model, source) in [
        (by_model(), Some("gpt-4o"), WindowSource::Model),
        (by_model(), Some("qwen3:0.6b"), WindowSource::None),
        (by_model(), None, WindowSource::None),
        (by_model().unknown(ModelLimits::new(8_192)), Some("qwen3:0.6b"), WindowSource::UnknownModel),
        (by_model().unknown(ModelLimits::new(8_192)), None, WindowSource::UnknownModel),
        (ContextBudget::tokens(1_000), Some("qwen3:0.6b"), WindowSource::Stated),
        (ContextBudget::unlimited(), Some("gpt-4o"), WindowSource::Unlimited),
    ] {
        let report = call(HistoryOptions::new().context(budget), model, "hi").await.unwrap();
        assert_eq!(report.context_window, source, "{model:?}");
        assert_eq!(report.context_window.is_limited(), report.tokens.is_some(), "{model:?}");
    }
    // Counting for watermarks alone is not a limit.
    let marked = HistoryOptions::new()
        .context(ContextOptions::new().budget(ContextBudget::by_model()).watermarks(Watermarks::last_turns(3)));
    let report = call(marked, Some("qwen3:0.6b"), "hi").await.unwrap();
    assert!(report.tokens.is_some() && !report.context_window.is_limited());
}

#[tokio::test]
async fn unknown_models_get_the_limit_of_unknown_models() {
    let budget = ContextBudget::by_model().unknown(ModelLimits::new(8_192));
    let long = "word ".repeat(9_000);
    let error = call(HistoryOptions::new().context(budget), Some("qwen3:0.6b"), &long).await.unwrap_err();
    assert!(matches!(error, HistoryError::DoesNotFit(refused) if refused.context_window == 8_192));
}

#[tokio::test]
async fn a_tokenizer_from_a_closure_counts_for_the_budget() {
    let counter = per_text("words", |text: &str| text.split_whitespace().count());
    let options = HistoryOptions::new()
        .context(ContextOptions::new().token_counter(counter).budget(ContextBudget::tokens(100).reply_reserve(10)));
    let report = call(options.clone(), None, "one two three").await.unwrap();
    assert_eq!(report.tokens.unwrap().prompt.input, 3 + 1 + 3);
    let error = call(options, None, &"word ".repeat(90)).await.unwrap_err();
    assert!(matches!(error, HistoryError::DoesNotFit(_)), "{error}");
}

#[tokio::test]
async fn a_budget_that_nothing_fits_refuses_each_call() {
    let limits = ModelLimits::new;
    for (budget, window) in [
        (ContextBudget::tokens(0), 0),
        (ContextBudget::tokens(1), 1),
        (ContextBudget::tokens(0).shrink_reply_to(0), 0),
        (ContextBudget::tokens(100).reply_reserve(100), 100),
        (ContextBudget::tokens(100).reply_reserve(u32::MAX), 100),
        (ContextBudget::by_model().model("m", limits(0).input(0).output(0)), 0),
        (ContextBudget::by_model().model("m", limits(u32::MAX).input(0)), 4_096),
        (ContextBudget::by_model().model("other", limits(9)).unknown(limits(0)), 0),
    ] {
        for watermarks in [Watermarks::default(), Watermarks::last_turns(1), Watermarks::last_messages(1)] {
            let options =
                HistoryOptions::new().context(ContextOptions::new().budget(budget.clone()).watermarks(watermarks));
            let HistoryError::DoesNotFit(refused) = call(options, Some("m"), "hi").await.unwrap_err() else {
                panic!("{budget:?}")
            };
            assert_eq!(refused.context_window, window, "{budget:?}");
        }
    }
}
