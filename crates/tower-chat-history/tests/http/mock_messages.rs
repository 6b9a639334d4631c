//! A provider of Anthropic's Messages API with a script.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use tower_chat_history_test::messages::{MadeMessage, MessagesProvider, Refusal, Say};

/// A provider with a script. Clones share the script and the recorded requests.
#[derive(Clone)]
pub(crate) struct MockMessages {
    pub(crate) provider: MessagesProvider,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    script: VecDeque<Vec<Say>>,
    requests: Vec<String>,
}

impl MockMessages {
    pub(crate) fn new(provider: MessagesProvider) -> Self {
        Self { provider, state: Arc::default() }
    }

    /// Adds a reply to the end of the script.
    pub(crate) fn push(&self, reply: Vec<Say>) {
        self.state.lock().unwrap().script.push_back(reply);
    }

    /// Returns the bodies of all requests so far, also of those that were refused.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.lock().unwrap().requests.clone()
    }

    /// Answers the body of a request. A request that is refused uses no reply of the script.
    pub(crate) fn answer(&self, body: String) -> Result<MadeMessage, Refusal> {
        let mut state = self.state.lock().unwrap();
        let made = self.provider.check(&body).and_then(|()| {
            let reply = state.script.pop_front().unwrap();
            self.provider.reply(&body, &reply)
        });
        state.requests.push(body);
        made
    }
}
