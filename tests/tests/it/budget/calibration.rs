//! Counts that are corrected by what the provider reports.

use tower_chat_history::{
    ContextBudget, ContextOptions, ConversationId, HistoryOptions, Message, report::TurnTokens, tokens::ByteEstimate,
};

use super::{
    asked::{ADAPTERS, Asked, Door},
    model::Answer,
    stack::Stack,
    steps::text,
};

/// 40 turns with a provider that counts 30% more, in a window of 1,000 tokens.
async fn turns(door: Door, budget: ContextBudget) -> Vec<TurnTokens> {
    let stack = Stack::new(
        HistoryOptions::new()
            .context(ContextOptions::new().token_counter(ByteEstimate::new()).budget(budget.reply_reserve(100))),
    );
    let (id, mut tokens) = (ConversationId::new(["calibration"]).unwrap(), Vec::<TurnTokens>::new());
    let mut window = 0;
    for _ in 0..40 {
        let asked = Asked::new(id.clone(), [Message::user(text(10))]);
        let mut answer = Answer::new(Message::assistant(text(10)));
        // The prompt's size is known only when it is there, but each turn adds 48 tokens.
        answer.prompt_tokens = Some(window);
        stack.model.answers(answer);
        stack.call(0, door, &asked).await.unwrap();
        let counted = stack.model.last().tokens(&ByteEstimate::new());
        let told = stack.report(&asked.exchange).unwrap().tokens.unwrap();
        assert_eq!(told.prompt.total(), counted);
        window = counted * 13 / 10;
        tokens.push(told);
    }
    tokens
}

#[tokio::test]
async fn a_provider_that_counts_more_makes_later_prompts_smaller_and_the_report_says_how_wrong_the_count_was() {
    for door in ADAPTERS {
        let calibrated = turns(door, ContextBudget::tokens(1_000)).await;
        let plain = turns(door, ContextBudget::tokens(1_000).calibrate(false)).await;
        let most = |tokens: &[TurnTokens]| tokens[20..].iter().map(|tokens| tokens.prompt.total()).max().unwrap();
        assert!(most(&plain) > 840, "{}", most(&plain));
        assert!((600..720).contains(&most(&calibrated)), "{}", most(&calibrated));
        let last = calibrated.last().unwrap();
        assert!((1.15..1.31).contains(&last.calibration), "{}", last.calibration);
        assert_eq!(last.limit, (900.0 / last.calibration) as u64);
        assert_eq!(plain.last().unwrap().calibration.to_bits(), 1.0_f64.to_bits());
        for told in calibrated.iter().chain(&plain).skip(1) {
            let (reported, counted) = (told.reported.unwrap() as f64, told.prompt.total() as f64);
            assert!((told.estimate_error().unwrap() - (reported / counted - 1.0)).abs() < 1e-9);
        }
    }
}
