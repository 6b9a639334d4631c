//! The mock models of the demo, with the response times of real models.

use std::{sync::Arc, time::Duration};

use examples::Counter;
use serde_json::json;
use tower_chat_history::{
    Message,
    store::Usage,
    tokens::{RequestTokens, TokenCounter, count_messages},
};
use tower_chat_history_test::{ApiFailure, MockLlm, Reply};

/// The chat model.
pub(crate) const MODEL: &str = "gpt-4o";
/// The summary model.
pub(crate) const SUMMARY_MODEL: &str = "gpt-4.1-mini";
/// The tool of the agent.
pub(crate) const TOOL: &str = "search_hotels";

/// The sentences of the replies.
const SENTENCES: [&str; 6] = [
    "The night train from Oslo is the calm way north, and the compartments are worth their price.",
    "In June the light stays until midnight, so plan the longer walks for the evenings.",
    "A car pays off only beyond Bodø; before that the bus goes as often as you want it to.",
    "Book the cabins early, since the better ones are gone by the end of March.",
    "The ferry takes bicycles without a ticket, and the crossing itself is half of the trip.",
    "Bring a warm layer even for July: the wind at the water does not read the calendar.",
];

const SUMMARY: &str = "The user plans ten days in northern Norway in June, for two, by train and ferry. They like long \
walks and quiet places, want to see the Lofoten islands, and do not want to rent a car before Bodø. Cabins are to be \
booked by March; the budget is 3,000 euros. Still open: the days in Tromsø, and whether bicycles come along.";

/// The response time of the models, as a percentage of a typical model's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace(pub(crate) u32);

impl Pace {
    pub(crate) fn millis(self, millis: u64) -> Duration {
        Duration::from_millis(millis * u64::from(self.0) / 100)
    }
}

/// All models of the demo.
pub(crate) struct Models {
    pace: Pace,
    counter: Arc<dyn TokenCounter>,
}

impl Models {
    pub(crate) fn new(pace: Pace) -> Self {
        Self { pace, counter: Counter::O200k.make() }
    }

    /// Creates a model that returns about 850 tokens after 400 ms.
    pub(crate) fn answering(&self) -> MockLlm {
        let latency = self.pace.millis(400);
        self.model(move |messages| Answer::Text(answer(messages)), move |reply| reply.latency(latency))
    }

    /// Creates a model that streams: the first chunk after 120 ms, the others within another 600 ms.
    pub(crate) fn streaming(&self) -> MockLlm {
        let first = self.pace.millis(120);
        let next = self.pace.millis(60);
        self.model(
            |messages| Answer::Text(answer(messages)),
            move |reply| reply.latency(first).chunk_delay(next).chunk_chars(500),
        )
    }

    /// Creates a model that searches three times and then answers. `tools` is the JSON of the request's tools.
    pub(crate) fn searching(&self, tools: &str) -> MockLlm {
        let latency = self.pace.millis(250);
        self.model_with_tools(Some(tools), next_search, move |reply| reply.latency(latency))
    }

    /// Creates a model that returns a summary after 700 ms.
    pub(crate) fn summarizing(&self) -> MockLlm {
        let latency = self.pace.millis(700);
        self.model(|_| Answer::Text(SUMMARY.to_owned()), move |reply| reply.latency(latency))
    }

    /// Creates a model that fails because it is overloaded.
    pub(crate) fn failing(&self) -> MockLlm {
        let latency = self.pace.millis(150);
        MockLlm::rules(move |_| Reply::error(ApiFailure::new(503, "The model is overloaded.")).latency(latency))
    }

    fn model(
        &self,
        decide: impl Fn(&[Message]) -> Answer + Send + Sync + 'static,
        time: impl Fn(Reply) -> Reply + Send + Sync + 'static,
    ) -> MockLlm {
        self.model_with_tools(None, decide, time)
    }

    /// Creates a model that reports its token usage, counted by its own tokenizer.
    fn model_with_tools(
        &self,
        tools: Option<&str>,
        decide: impl Fn(&[Message]) -> Answer + Send + Sync + 'static,
        time: impl Fn(Reply) -> Reply + Send + Sync + 'static,
    ) -> MockLlm {
        let counter = Arc::clone(&self.counter);
        let tools = tools.map_or_else(RequestTokens::new, |tools| RequestTokens::new().tools(tools)).count(&counter);

        MockLlm::rules(move |messages| {
            let answer = decide(messages);
            let read = count_messages(&counter, messages) + u64::from(tools);
            let written = u64::from(counter.count_text(answer.text()));
            time(answer.reply(messages.len()).usage(Usage::new(read, written)))
        })
    }
}

enum Answer {
    Text(String),
    Search(&'static str),
}

impl Answer {
    fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Search(town) => town,
        }
    }

    fn reply(&self, messages: usize) -> Reply {
        match self {
            Self::Text(text) => Reply::text(text),
            Self::Search(town) => {
                Reply::calls([(format!("call-{messages}"), TOOL, json!({ "town": town }).to_string())])
            }
        }
    }
}

/// Returns a different answer for each question, always of the same size.
fn answer(messages: &[Message]) -> String {
    let sentences = SENTENCES.iter().cycle().skip(messages.len() % SENTENCES.len()).take(42);
    sentences.copied().collect::<Vec<_>>().join(" ")
}

/// Returns the search for the next town, or the answer after the search for the last one.
fn next_search(messages: &[Message]) -> Answer {
    let since_question = messages.iter().rev().take_while(|message| message.role().as_str() != "user");
    let searches = since_question.filter(|message| message.is_tool_result()).count();
    match ["Bodø", "Svolvær", "Tromsø"].get(searches) {
        Some(town) => Answer::Search(town),
        None => Answer::Text(SENTENCES.join(" ")),
    }
}

/// Returns the result of a search: about 1,200 tokens.
pub(crate) fn hotels(town: &str) -> String {
    let mut found = Vec::new();
    for number in 1..=30 {
        found.push(json!({
            "name": format!("{town} Havn {number}"),
            "price": 90 + number * 3,
            "rooms": number % 7,
            "text": SENTENCES[number % SENTENCES.len()],
        }));
    }
    json!(found).to_string()
}
