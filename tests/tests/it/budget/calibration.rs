//! Token counts that are corrected with the usage reports of the provider.

use tower_chat_history::{
    ContextBudget, ContextOptions, ConversationId, HistoryOptions, Message, report::TurnTokens, tokens::ByteEstimate,
};

use super::{
    call_spec::{ADAPTERS, CallSpec, Integration},
    model::Answer,
    stack::Stack,
    steps::text,
};

/// Makes 40 turns in a window of 1,000 tokens. The provider counts 30% more than the token counter.
async fn turns(integration: Integration, budget: ContextBudget) -> Vec<TurnTokens> {
    let stack = Stack::new(
        HistoryOptions::new()
            .context(ContextOptions::new().token_counter(ByteEstimate::new()).budget(budget.reply_reserve(100))),
    );
    let (id, mut tokens) = (ConversationId::new(["calibration"]).unwrap(), Vec::<TurnTokens>::new());
    let mut window = 0;
    for _ in 0..40 {
        let spec = CallSpec::new(id.clone(), [Message::user(text(10))]);
        let mut answer = Answer::new(Message::assistant(text(10)));
        // The size of a prompt is known only after the call, so the report is that of the call before. Each
        // turn adds 48 tokens.
        answer.prompt_tokens = Some(window);
        stack.model.answers(answer);
        stack.call(0, integration, &spec).await.unwrap();
        let counted = stack.model.last().tokens(&ByteEstimate::new());
        let tokens_of_turn = stack.report(&spec.exchange).unwrap().tokens.unwrap();
        assert_eq!(tokens_of_turn.prompt.total(), counted);
        window = counted * 13 / 10;
        tokens.push(tokens_of_turn);
    }
    tokens
}

#[tokio::test]
async fn a_provider_that_counts_more_makes_later_prompts_smaller_and_the_error_of_the_count_is_reported() {
    for integration in ADAPTERS {
        let calibrated = turns(integration, ContextBudget::tokens(1_000)).await;
        let plain = turns(integration, ContextBudget::tokens(1_000).calibrate(false)).await;
        let most = |tokens: &[TurnTokens]| tokens[20..].iter().map(|tokens| tokens.prompt.total()).max().unwrap();
        assert!(most(&plain) > 840, "{}", most(&plain));
        assert!((600..720).contains(&most(&calibrated)), "{}", most(&calibrated));
        let last = calibrated.last().unwrap();
        assert!((1.15..1.31).contains(&last.calibration), "{}", last.calibration);
        assert_eq!(last.limit, (900.0 / last.calibration) as u64);
        assert_eq!(plain.last().unwrap().calibration.to_bits(), 1.0_f64.to_bits());
        for tokens_of_turn in calibrated.iter().chain(&plain).skip(1) {
            let (reported, counted) = (tokens_of_turn.reported.unwrap() as f64, tokens_of_turn.prompt.total() as f64);
            assert!((tokens_of_turn.estimate_error().unwrap() - (reported / counted - 1.0)).abs() < 1e-9);
        }
    }
}
