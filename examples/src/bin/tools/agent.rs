//! The agent loop: call the model, run the tools that it requests, send the results, until it answers.

use std::sync::Arc;

use tower_chat_history::{BoxError, ConversationId, HistoryStore, HistoryStoreExt as _, store::ToolCall};

use crate::{
    model::{Model, Said},
    toolbox::{self, Call, CallResult},
};

/// The maximum number of model calls per question.
const MAX_ROUNDS: usize = 8;

pub(crate) struct Agent {
    model: Model,
    store: Arc<dyn HistoryStore>,
    id: ConversationId,
}

/// The new messages of a request.
pub(crate) enum Input {
    Question(String),
    Results(Vec<CallResult>),
}

pub(crate) enum Ended {
    Answered(String),
    Crashed,
}

impl Agent {
    pub(crate) fn new(store: Arc<dyn HistoryStore>, model: Model, id: ConversationId) -> Self {
        Self { model, store, id }
    }

    /// Returns the tool calls to which an earlier process has stored no result.
    pub(crate) async fn open_calls(&self) -> Result<Vec<Call>, BoxError> {
        let calls = self.store.conversation(&self.id).open_calls().await?;
        let call = |call: ToolCall| Call {
            id: call.id().into(),
            name: call.name().into(),
            arguments: call.arguments().into(),
        };
        Ok(calls.into_iter().map(call).collect())
    }

    pub(crate) async fn run(&mut self, mut input: Input, crash: bool) -> Result<Ended, BoxError> {
        for _ in 0..MAX_ROUNDS {
            let Said { thinking, text, calls } = self.model.ask(&self.id, input).await?;
            for thinking in thinking {
                eprintln!("[thinking: {thinking}]");
            }
            if calls.is_empty() {
                return Ok(Ended::Answered(text));
            }
            if crash {
                return Ok(Ended::Crashed);
            }
            input = Input::Results(toolbox::run_all(&calls).await);
        }
        Err(format!("the model still requests tools after {MAX_ROUNDS} rounds").into())
    }
}
