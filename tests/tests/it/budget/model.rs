//! A model that records the JSON of its requests, for any integration.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tower_chat_history::Message;

use super::call_spec::Received;

#[derive(Clone, Default)]
pub(crate) struct Model(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    answers: VecDeque<Answer>,
    received: Vec<Received>,
}

/// The next response.
pub(crate) struct Answer {
    pub(crate) message: Message,
    /// The number of prompt tokens to report.
    pub(crate) prompt_tokens: Option<u64>,
    /// The response waits for this.
    pub(crate) held: Option<oneshot::Receiver<()>>,
}

impl Answer {
    pub(crate) fn new(message: Message) -> Self {
        Self { message, prompt_tokens: None, held: None }
    }
}

impl Model {
    /// Adds the response to the next call that has none. Calls without a response get `a`.
    pub(crate) fn answers(&self, answer: Answer) {
        self.0.lock().unwrap().answers.push_back(answer);
    }

    /// Removes the responses that were not used.
    pub(crate) fn forget_answers(&self) {
        self.0.lock().unwrap().answers.clear();
    }

    pub(crate) fn calls(&self) -> usize {
        self.0.lock().unwrap().received.len()
    }

    pub(crate) fn last(&self) -> Received {
        self.0.lock().unwrap().received.last().unwrap().clone()
    }

    /// Records the request at once. Returns the response, which may have to wait.
    pub(crate) fn receive(&self, body: String) -> impl Future<Output = Value> + Send + use<> {
        let answer = {
            let mut state = self.0.lock().unwrap();
            state.received.push(Received::new(body));
            state.answers.pop_front().unwrap_or_else(|| Answer::new(Message::assistant("a")))
        };
        async move {
            if let Some(held) = answer.held {
                // Dropping the sender also releases the response.
                let _ = held.await;
            }
            let message: Value = serde_json::from_str(answer.message.json()).unwrap();
            let usage = answer
                .prompt_tokens
                .map(|tokens| json!({"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1}));
            json!({
                "id": "1", "object": "chat.completion", "created": 0, "model": "m", "usage": usage,
                "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": null}],
            })
        }
    }
}
