//! A summarizer that needs no model.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use tower_chat_history::{
    BoxError, Message,
    store::Usage,
    summary::{Summarizer, SummaryPrompt, SummaryRequest, SummaryResponse},
    tokens::{TokenCounter, count_messages},
};
use tower_chat_history_test::rules::remembered_answer;

/// The number of words taken from each message.
const WORDS: usize = 8;

/// The beginning of the line with the user's name. The mock model recognizes a name by it.
const NAME: &str = "My name is ";

/// A summarizer that extracts the first words of the newest messages, as many as fit into the summary, and the user's
/// name. The same input always gives the same summary.
///
/// It reports the token usage that a model would have with the default prompt.
pub struct Extract {
    counter: Arc<dyn TokenCounter>,
}

impl Extract {
    /// Creates a summarizer that measures its summaries with this counter.
    #[must_use]
    pub const fn new(counter: Arc<dyn TokenCounter>) -> Self {
        Self { counter }
    }

    fn text(&self, request: &SummaryRequest) -> String {
        let previous = request.previous.as_deref().unwrap_or_default();
        let mut lines: Vec<String> =
            previous.lines().filter(|line| !line.starts_with(NAME)).map(str::to_owned).collect();
        lines.extend(request.messages.iter().filter_map(extract));

        // The name is the last line, because the mock model uses the last name that it finds.
        lines.extend(name(previous, &request.messages));

        loop {
            let text = lines.join("\n");
            if lines.is_empty() || self.counter.count_text(&text) <= request.max_tokens {
                return text;
            }
            lines.remove(0);
        }
    }
}

#[async_trait]
impl Summarizer for Extract {
    async fn summarize(&self, request: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        let text = self.text(&request);
        let prompt = SummaryPrompt::default().messages(&request);
        let input = count_messages(&self.counter, &prompt) + u64::from(self.counter.reply_priming());
        let output = self.counter.count_text(&text).into();

        let mut response = SummaryResponse::new(text);
        response.usage = Some(Usage::new(input, output));
        Ok(response)
    }
}

impl fmt::Debug for Extract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extract").field("counter", &self.counter).finish()
    }
}

/// Returns the beginning of a message, if it has text.
fn extract(message: &Message) -> Option<String> {
    let text = message.text();
    let words: Vec<&str> = text.split_whitespace().take(WORDS).collect();
    (!words.is_empty()).then(|| format!("{}: {}", message.role(), words.join(" ")))
}

/// Returns the line with the user's name, if the mock model finds a name in these messages.
fn name(previous: &str, messages: &[Message]) -> Option<String> {
    let mut prompt = vec![Message::user(previous)];
    prompt.extend(messages.iter().cloned());
    prompt.push(Message::user("What is my name?"));
    remembered_answer(&prompt).strip_prefix("Your name is ").map(|name| format!("{NAME}{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Counter;

    async fn summary(previous: Option<&str>, texts: &[&str], max_tokens: u32) -> String {
        let messages = texts.iter().map(Message::user).collect();
        let request = SummaryRequest::new(previous.map(str::to_owned), messages, max_tokens);
        let summarized = Extract::new(Counter::O200k.make()).summarize(request).await.unwrap();
        assert!(summarized.usage.unwrap().output_tokens <= max_tokens.into());
        summarized.text
    }

    #[tokio::test]
    async fn a_summary_has_the_newest_beginnings_and_the_name() {
        let first = summary(None, &["I am Nemo.", "one two three four five six seven eight nine", " "], 100).await;
        assert_eq!(first, "user: I am Nemo.\nuser: one two three four five six seven eight\nMy name is Nemo.");
        let rolled = summary(Some(&first), &["and then"], 100).await;
        assert!(rolled.ends_with("eight\nuser: and then\nMy name is Nemo."), "{rolled}");
        assert_eq!(summary(Some(&first), &["and then"], 10).await, "user: and then\nMy name is Nemo.");
        assert!(summary(Some(&first), &["Call me Dory."], 100).await.ends_with("\nMy name is Dory."));
        assert_eq!(summary(None, &["so many words"], 1).await, "");
    }
}
