//! The tool with which a model searches its conversation itself.

mod page;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::{Value, json};
use tower_chat_history_core::{Citation, ConversationId, Recorded, Seq};

pub use self::page::ArgumentsError;
use self::page::{Arguments, Page, Pager};
use super::{
    log::{ByWords, LogSearch, Pace, SearchError, Stop},
    passage::Passage,
    search::{Query, Search},
    select::citations,
    shown::render,
};

/// The number of results whose exchanges are read at once.
const READ: usize = 32;
/// The most results that are compared with times.
const MAX_TIMED: usize = 1024;

/// A tool with which a model searches the conversation that it is in.
///
/// The gate of recall is made for questions, and stays shut for other input. A model that has this tool can search
/// whenever it needs something. The tool finds messages by words, as recall does, but without the gate, in the newest
/// [messages](LogSearch::messages) of the conversation, and page by page. It searches one conversation, also if the
/// search has a [scope](LogSearch::under).
///
/// ```
/// use std::sync::Arc;
///
/// use tower_chat_history::MemoryStore;
/// use tower_chat_history_core::{ConversationId, HistoryStoreExt, Message};
/// use tower_chat_history::recall::{Analyzer, SearchTool, LogSearch};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Arc::new(MemoryStore::new());
/// let id = ConversationId::new(["ann"])?;
/// store.conversation(&id).import(vec![Message::user("My dog is called Rex."), Message::assistant("Nice!")]).await?;
///
/// let tool = SearchTool::new(LogSearch::new(store, Analyzer::default()));
/// assert_eq!(SearchTool::definition()["function"]["name"], "search_conversation");
/// let answer = tool.call(&id, r#"{"query":"dog"}"#).await?;
/// assert!(answer.contains("My dog is called Rex.") && answer.ends_with("There are no more results."));
///
/// // A mistake of the model is an answer too.
/// let error = tool.call(&id, "{}").await.unwrap_err();
/// assert!(error.answer().is_some_and(|answer| answer.starts_with("The argument \"query\" is missing.")));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SearchTool {
    search: LogSearch,
    page_bytes: usize,
    time_limit: Duration,
}

/// The error of a call of the tool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The model passed arguments that cannot be used.
    #[error("the arguments of the search cannot be used: {0}")]
    Arguments(#[from] ArgumentsError),
    /// The search failed.
    #[error(transparent)]
    Search(#[from] SearchError),
}

impl ToolError {
    /// Returns the answer for the model, if it can do something about the error: correct its arguments, or search again
    /// later.
    #[must_use]
    pub fn answer(&self) -> Option<String> {
        match self {
            Self::Arguments(error) => Some(error.to_string()),
            Self::Search(SearchError::TimedOut(_)) => {
                Some("The search took too long. Try again later, or use fewer words.".to_owned())
            }
            Self::Search(_) => None,
        }
    }
}

impl SearchTool {
    /// The name of the tool.
    pub const NAME: &'static str = "search_conversation";
    /// The description of the tool, for the model.
    pub const DESCRIPTION: &'static str = "Searches earlier messages of this conversation, including those that are no \
        longer shown. Use it if the user refers to something that you cannot see.";
    /// The most bytes of a page by default.
    pub const PAGE_BYTES: usize = 16 << 10;
    /// The longest time of a call by default.
    pub const TIME_LIMIT: Duration = Duration::from_secs(2);

    /// Creates the tool for the conversations that a search covers.
    #[must_use]
    pub const fn new(search: LogSearch) -> Self {
        Self { search, page_bytes: Self::PAGE_BYTES, time_limit: Self::TIME_LIMIT }
    }

    /// Sets the size of a page in bytes. A page also has at most 10 results. The default is
    /// [`PAGE_BYTES`](Self::PAGE_BYTES). A message that does not fit on a page is not shown: the answer has its
    /// position.
    #[must_use]
    pub const fn page_bytes(mut self, bytes: usize) -> Self {
        self.page_bytes = bytes;
        self
    }

    /// Sets the longest time of a call. It is checked at each pause, without a timer. A call that waits for the store
    /// does not end before the store does. The default is [`TIME_LIMIT`](Self::TIME_LIMIT).
    #[must_use]
    pub const fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Returns the JSON schema of the arguments.
    #[must_use]
    pub fn parameters() -> Value {
        json!({
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": "Words that the messages may contain. All forms of a word are found.",
                },
                "from": {
                    "type": "string",
                    "format": "date-time",
                    "description": "Only messages from this time on, such as 2026-05-08T13:56:00Z.",
                },
                "to": {
                    "type": "string",
                    "format": "date-time",
                    "description": "Only messages up to this time.",
                },
                "page": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "The page of the results. The first one is 1.",
                },
            },
            "required": ["query"],
            "additionalProperties": false,
        })
    }

    /// Returns the definition of the tool, as an item of `tools` in a request for a chat completion.
    #[must_use]
    pub fn definition() -> Value {
        json!({
            "type": "function",
            "function": {"name": Self::NAME, "description": Self::DESCRIPTION, "parameters": Self::parameters()},
        })
    }

    /// Searches a conversation with the arguments of a tool call, which are a JSON object. Returns the content of the
    /// tool's result.
    ///
    /// The result has the form of [recalled messages](crate::recall::render), then a line that says how to get the next page.
    ///
    /// # Errors
    ///
    /// Returns an error if the arguments cannot be used, which has an [answer](ToolError::answer) for the model, or if
    /// the search failed.
    pub async fn call(&self, conversation: &ConversationId, arguments: &str) -> Result<String, ToolError> {
        let arguments = Arguments::parse(arguments)?;
        let query = Query::new(self.search.analyzer(), &arguments.query);
        if query.is_empty() {
            return Err(ArgumentsError::NoWords.into());
        }
        match self.answer(conversation, &arguments, &query).await {
            Ok(answer) => Ok(answer),
            Err(Stop::Gone) => Ok("There are no earlier messages.".to_owned()),
            Err(Stop::Failed(error)) => Err(error.into()),
        }
    }

    async fn answer(&self, id: &ConversationId, arguments: &Arguments, query: &Query) -> Result<String, Stop> {
        let limit = if arguments.has_times() { MAX_TIMED } else { Search::LIMIT };
        let part = self.search.newest(id, None, limit).await?;
        let mut pace = Pace::new(Some(self.time_limit));
        let found = self.search.words.search(&self.search.log, part, query, &mut pace).await?;

        let mut pager = Pager::new(arguments, self.page_bytes);
        let mut read: BTreeMap<Seq, Recorded> = BTreeMap::new();
        let mut more = false;
        'pages: for hits in found.hits.chunks(READ) {
            let needed: BTreeSet<Seq> = hits.iter().flat_map(|hit| around(hit.seq)).collect();
            let needed: Vec<Seq> = needed.into_iter().filter(|seq| found.within.contains(seq)).collect();
            let exchanges = self.search.log.picked(id, part.revision.incarnation(), &needed).await?;

            for hit in hits {
                pace.pause().await?;
                let before = pager.page.number;
                more = pager.add(hit, &exchanges);
                if more {
                    break 'pages;
                }
                if pager.page.number != before {
                    read.clear();
                }
                for seq in around(hit.seq) {
                    if pager.page.has(seq)
                        && let Some(recorded) = exchanges.iter().find(|recorded| recorded.seq == seq)
                    {
                        read.insert(seq, recorded.clone());
                    }
                }
            }
        }

        let exchanges: Vec<Recorded> = read.into_values().collect();
        Ok(text(arguments, &found, &pager.page, &exchanges, more, limit))
    }
}

/// Returns the position of an exchange, and those next to it.
fn around(seq: Seq) -> [Seq; 3] {
    [Seq::new(seq.get().saturating_sub(1)), seq, seq.next()]
}

/// Returns the text of a page.
fn text(
    arguments: &Arguments,
    found: &ByWords,
    page: &Page,
    exchanges: &[Recorded],
    more: bool,
    limit: usize,
) -> String {
    let mut lines = Vec::new();
    if page.is_empty() {
        lines.push("Nothing was found.".to_owned());
    } else if page.number < arguments.page {
        lines.push(format!("There is no page {}. The last page is {}.", arguments.page, page.number));
    } else {
        let cited: Vec<Citation> = citations(page.messages.iter().copied());
        lines.extend(render(exchanges, &cited).map(|recalled| recalled.message.text().into_owned()));
        for seq in &page.too_long {
            lines.push(format!("A message at position {seq} is too long to be shown."));
        }
        let next = page.number.saturating_add(1);
        lines.push(if more {
            format!("This is page {}. For more results, use the same arguments with \"page\": {next}.", page.number)
        } else {
            end(found, limit)
        });
    }

    let is_end = !page.is_empty() && page.number >= arguments.page;
    if !more && !is_end && found.hits.len() >= limit {
        lines.push(format!("Only the best {limit} messages were considered. Other words may find others."));
    }
    if found.unsearched > 0 {
        lines.push(format!("{} older exchanges were not searched.", found.unsearched));
    }
    lines.join("\n")
}

/// Returns the line after the last result. It says that there are no more only if all messages were searched.
fn end(found: &ByWords, limit: usize) -> String {
    if found.hits.len() >= limit {
        return format!("There are no more results among the best {limit} messages. Other words may find others.");
    }
    match found.longest {
        Some(seq) => format!(
            "There are no more results in what was searched. Only the first {} passages of a long exchange are, such \
             as the one at position {seq}.",
            Passage::MAX_OF_EXCHANGE
        ),
        None => "There are no more results.".to_owned(),
    }
}
