//! The size of recalled messages: their allowance, their part of the prompt, and the room that is reserved for them.

use tower_chat_history::{
    ContextBudget, HistoryOptions, Message,
    recall::RecallOptions,
    tokens::{ByteEstimate, TokenCounter as _},
};

use super::support::{Answer, Chat, ScriptedRecall, block, budget, question, recalled};

fn tokens(messages: &[Message]) -> u64 {
    messages.iter().map(|message| u64::from(ByteEstimate::new().count_message(message))).sum()
}

/// The tokens that every prompt has in addition to its messages.
const PRIMING: u64 = 3;

/// Returns the size of the constant reply to recalled messages.
fn reply() -> u64 {
    tokens(&[Message::assistant("Understood.")])
}

/// A search that shows as much as it may.
fn greedy() -> ScriptedRecall {
    ScriptedRecall::new(|_, search| {
        let sizes = (0..search.allowance * 4).rev();
        let mut blocks = sizes.map(|size| block(&format!("recalled {}", "r".repeat(size as usize)), search.before));
        let fitting = blocks.find(|block| tokens(std::slice::from_ref(&block.message)) <= search.allowance);
        fitting.map_or(Answer::Nothing, Answer::Shows)
    })
}

#[tokio::test]
async fn the_prompt_with_recalled_messages_is_within_its_limit_and_the_report_has_their_size() {
    let chat = Chat::new(greedy());
    let mut shown = 0;
    for number in 0..60 {
        let (context, report) = chat.turn(&format!("question {number} {}", "word ".repeat(number % 7 * 40))).await;
        let sizes = report.tokens.unwrap();
        assert!(sizes.prompt.total() <= sizes.limit, "turn {number}: {} > {}", sizes.prompt.total(), sizes.limit);
        assert_eq!(sizes.prompt.total(), PRIMING + tokens(&context), "turn {number}");
        let Some(search) = &report.recall else {
            assert_eq!(sizes.prompt.recalled, 0);
            continue;
        };
        assert!(search.tokens <= search.allowance && search.allowance <= 216);
        assert_eq!((sizes.prompt.recalled, search.exchanges, search.messages), (search.tokens + reply(), 1, 1));
        assert_eq!(tokens(&context[context.len() - 3..context.len() - 2]), search.tokens);
        shown += 1;
    }
    assert!(shown > 40, "{shown}");
}

#[tokio::test]
async fn the_allowance_is_a_share_of_the_limit_and_at_most_the_free_tokens() {
    let chat = Chat::new(ScriptedRecall::new(|_, _| Answer::Nothing));
    let (mut whole, mut less) = (0, 0);
    for _ in 0..40 {
        let (context, report) = chat.turn("question").await;
        let Some(search) = &report.recall else { continue };
        let free = 1_800 - PRIMING - tokens(&context);
        assert_eq!(search.allowance, free.saturating_sub(reply()).min(216));
        assert_eq!(search.allowance, chat.recall.searches().last().unwrap().allowance);
        *(if search.allowance < 216 { &mut less } else { &mut whole }) += 1;
    }
    assert!(whole > 5 && less > 2, "{whole} {less}");
}

#[tokio::test]
async fn without_a_budget_at_most_2000_tokens_are_shown() {
    use tower_chat_history::{ContextOptions, budget::Watermarks};
    let context = ContextOptions::new().budget(ContextBudget::unlimited()).watermarks(Watermarks::last_turns(3));
    let recall = greedy();
    let options = HistoryOptions::new().context(context).recall(RecallOptions::new(recall.clone()));
    let chat = Chat::with_options(recall, options);
    for _ in 0..12 {
        chat.turn("question").await;
    }
    let searches = chat.recall.searches();
    assert!(searches.len() > 4 && searches.iter().all(|search| search.allowance == 2_000));
    let stored = chat.last_exchange().await.recalled.unwrap();
    assert_eq!(stored.tokens.map(u64::from), Some(tokens(&[stored.message])));
}

#[tokio::test]
async fn reserved_tokens_make_a_compaction_earlier() {
    let compacted_at = |recall: bool| async move {
        let search = ScriptedRecall::new(|_, _| Answer::Nothing);
        // A large allowance, so that the reserve is larger than half a turn.
        let options = HistoryOptions::new().context(budget());
        let options = if recall { options.recall(RecallOptions::new(search.clone()).percent(25)) } else { options };
        let chat = Chat::with_options(search, options);
        let first = chat.until_moved().await;
        (first, chat.until_moved().await)
    };
    let ((first, second), (first_without, second_without)) = (compacted_at(true).await, compacted_at(false).await);
    assert_eq!(first, first_without, "nothing is reserved while the prompt contains the whole log");
    assert!(second <= second_without, "{second} {second_without}");

    // 1,800 tokens with 64 reserved: an input that leaves 63 is one too many, and one that leaves 64 fits.
    for (left, moved) in [(64, false), (63, true)] {
        let chat = Chat::new(ScriptedRecall::new(|_, _| Answer::Nothing));
        chat.until_moved().await;
        let window = chat.window().await;
        let sent: Vec<Message> =
            window.exchanges.iter().flat_map(|recorded| recorded.exchange.messages.clone()).collect();
        let room = 1_800 - PRIMING - tokens(&sent) - left;
        let overhead = tokens(&[Message::user("")]);
        let turn = chat.begin([Message::user("q".repeat((room - overhead) as usize * 4))]).await;
        assert_eq!(turn.context().len() < sent.len() + 1, moved, "{left} tokens are left");
    }
}

#[tokio::test]
async fn recalled_messages_of_earlier_turns_count_as_part_of_the_window() {
    let chat = Chat::new(ScriptedRecall::numbered());
    chat.until_moved().await;
    for _ in 0..12 {
        let (context, report) = chat.turn("question").await;
        let earlier: Vec<Message> = context[..context.len() - 3]
            .iter()
            .filter(|message| message.text().starts_with("recalled"))
            .cloned()
            .collect();
        let sizes = report.tokens.unwrap().prompt;
        assert_eq!(sizes.window, tokens(&context[..context.len() - 3]));
        assert_eq!(earlier.len() + 1, recalled(&context).len());
        assert_eq!(sizes.input, tokens(&[question("question")]));
    }
}
