//! The engine and its work on a log: counting, planning, clearing, summaries, spans.

use async_trait::async_trait;
use tower_chat_history::{
    BoxError, ContextBudget, ContextOptions, Engine, HistoryOptions, HistoryStoreExt as _, Message, Reply, Summaries,
    TurnInput,
    budget::ClearResults,
    summary::{SummarizeWhen, Summarizer, SummaryFormat, SummaryPrompt, SummaryRequest, SummaryResponse},
    tokens::LangChainEstimate,
};

use super::{
    Case, block_on,
    texts::{LEVELS, deep_store, id, lists, log, messages, texts, tool_round},
};

pub(crate) const CASES: &[Case] = cases![
    the_engine_makes_turns,
    the_engine_makes_turns_with_langchain_s_estimate,
    the_engine_makes_turns_within_a_budget,
    a_log_is_summarized,
    a_summary_s_prompt_is_written,
];

fn the_engine_makes_turns() {
    turns(HistoryOptions::new());
}

fn the_engine_makes_turns_with_langchain_s_estimate() {
    turns(HistoryOptions::new().context(ContextOptions::new().token_counter(LangChainEstimate::new())));
}

fn the_engine_makes_turns_within_a_budget() {
    let budget = ContextBudget::tokens(400_000).reply_reserve(10);
    turns(HistoryOptions::new().context(
        ContextOptions::new().token_counter(LangChainEstimate::new()).budget(budget).clear_results(ClearResults::new()),
    ));
}

/// Makes turns on a log with every kind of message, and adds every kind to it.
fn turns(options: HistoryOptions) {
    block_on(async {
        let store = deep_store().await;
        let engine = Engine::with_options(store.clone(), options);
        let [asks, result] = tool_round();
        for message in messages() {
            let mut input = TurnInput::new(id(), [Message::user("go")]);
            input.request.model = Some("m".into());
            input.request.head = vec![Message::system(lists(LEVELS))];
            (input.request.tools, input.request.response_format) = (Some(lists(1_000)), Some(lists(1_000)));
            let Ok(turn) = engine.begin(input).await else { continue };
            let reply = if message.tool_calls().is_empty() { message } else { Message::assistant("ok") };
            turn.commit(Reply::new(reply)).await.unwrap();
        }
        let turn = engine.begin(TurnInput::new(id(), [Message::user("go")])).await.unwrap();
        turn.commit(Reply::new(asks)).await.unwrap();
        let turn = engine.begin(TurnInput::new(id(), [result.clone(), result])).await.unwrap();
        turn.commit(Reply::new(Message::assistant("done"))).await.unwrap();
        let resent = store.conversation(&id()).messages().await.unwrap();
        let again = TurnInput::new(id(), [Message::user("and")]).transcript(resent);
        engine.begin(again).await.unwrap().commit(Reply::new(Message::assistant("done"))).await.unwrap();
    });
}

#[derive(Debug)]
struct Deep;

#[async_trait]
impl Summarizer for Deep {
    async fn summarize(&self, request: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        let prompt = SummaryPrompt::default().messages(&request);
        assert_eq!(prompt.len(), 2);
        Ok(SummaryResponse::new(lists(500)))
    }
}

fn a_log_is_summarized() {
    let summaries = Summaries::new(Deep).when(SummarizeWhen::BeforeEveryCall).max_tokens(1_000);
    let budget = ContextBudget::tokens(250_000).reply_reserve(10);
    turns(HistoryOptions::new().context(budget).summaries(summaries));
}

fn a_summary_s_prompt_is_written() {
    let all = log().into_iter().flat_map(|exchange| exchange.messages).collect();
    for deep in texts() {
        let _ = SummaryFormat::default().message(&deep);
        let _ = SummaryFormat::new(deep.as_str(), deep.as_str()).message(&deep);
    }
    let request = SummaryRequest::new(Some(lists(LEVELS)), all, 100);
    assert_eq!(SummaryPrompt::default().messages(&request).len(), 2);
}
