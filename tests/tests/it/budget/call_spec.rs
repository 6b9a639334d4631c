//! A call in the form that each integration accepts, and the request that reached the model.

use std::collections::BTreeMap;

use async_openai::{error::OpenAIError, middleware::HttpRequestFactory};
use reqwest::{Method, Request};
use serde_json::{json, value::RawValue};
use tower_chat_history::{
    ConversationId, ExchangeId, InConversation, Message, engine::InputMode, tokens::TokenCounter,
};
use tower_chat_history_openai::client::{CONVERSATION_ID, DONT_STORE, EXCHANGE_ID};

/// An integration, and its input mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Integration {
    Typed(Mode),
    Client(Mode),
    Json(Mode),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Mode {
    New,
    Transcript,
}

pub(crate) const ALL_INTEGRATIONS: [Integration; 6] = [
    Integration::Typed(Mode::New),
    Integration::Typed(Mode::Transcript),
    Integration::Client(Mode::New),
    Integration::Client(Mode::Transcript),
    Integration::Json(Mode::New),
    Integration::Json(Mode::Transcript),
];

/// The three integrations, with new input only.
pub(crate) const ADAPTERS: [Integration; 3] =
    [Integration::Typed(Mode::New), Integration::Client(Mode::New), Integration::Json(Mode::New)];

impl Integration {
    pub(crate) fn mode(self) -> Mode {
        let (Self::Typed(mode) | Self::Client(mode) | Self::Json(mode)) = self;
        mode
    }

    pub(crate) fn input_mode(self) -> InputMode {
        match self.mode() {
            Mode::New => InputMode::New,
            Mode::Transcript => InputMode::Transcript,
        }
    }
}

/// A call, independent of its integration.
#[derive(Clone, Debug)]
pub(crate) struct CallSpec {
    pub(crate) conversation: ConversationId,
    pub(crate) exchange: ExchangeId,
    pub(crate) model: &'static str,
    pub(crate) head: Vec<Message>,
    pub(crate) resent: Vec<Message>,
    pub(crate) input: Vec<Message>,
    /// The limit of the reply, and the name of its field.
    pub(crate) limit: Option<(&'static str, u32)>,
    pub(crate) tools: Option<String>,
    pub(crate) response_format: Option<String>,
    pub(crate) dont_store: bool,
}

impl CallSpec {
    pub(crate) fn new(conversation: ConversationId, input: impl IntoIterator<Item = Message>) -> Self {
        Self {
            conversation,
            exchange: ExchangeId::generate(),
            model: "gpt-4o",
            head: Vec::new(),
            resent: Vec::new(),
            input: input.into_iter().collect(),
            limit: None,
            tools: None,
            response_format: None,
            dont_store: false,
        }
    }

    /// Returns the JSON of the request. It has the messages byte for byte.
    pub(crate) fn body(&self) -> String {
        let messages: Vec<&Message> = self.head.iter().chain(&self.resent).chain(&self.input).collect();
        let limit = self.limit.map_or_else(String::new, |(field, tokens)| format!(r#""{field}" : {tokens},"#));
        let field = |name: &str, json: &Option<String>| {
            json.as_ref().map_or_else(String::new, |json| format!(r#""{name}":{json},"#))
        };
        let schemas = field("tools", &self.tools) + &field("response_format", &self.response_format);
        let messages = serde_json::to_string(&messages).unwrap();
        format!(r#"{{"model":"{}",{limit}"messages":{messages},{schemas}"temperature":1.0}}"#, self.model)
    }

    /// Returns the call for integrations that take an envelope.
    pub(crate) fn envelope<R>(&self, request: R) -> InConversation<R> {
        let call = InConversation::new(self.conversation.clone(), request).exchange(self.exchange.clone());
        if self.dont_store { call.dont_store() } else { call }
    }

    /// Returns the call for the HTTP client.
    pub(crate) fn http(&self) -> HttpRequestFactory {
        let spec = self.clone();
        HttpRequestFactory::new(move || {
            let mut request = Request::new(Method::POST, "http://llm.test/v1/chat/completions".parse().unwrap());
            let headers = request.headers_mut();
            headers.insert(CONVERSATION_ID, spec.conversation.to_string().parse().unwrap());
            headers.insert(EXCHANGE_ID, spec.exchange.to_string().parse().unwrap());
            if spec.dont_store {
                headers.insert(DONT_STORE, "true".parse().unwrap());
            }
            *request.body_mut() = Some(spec.body().into());
            async { Ok::<_, OpenAIError>(request) }
        })
    }
}

/// A request that reached the model.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) body: String,
    pub(crate) messages: Vec<Message>,
    fields: BTreeMap<String, Box<RawValue>>,
}

impl Received {
    pub(crate) fn new(body: String) -> Self {
        let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&body).unwrap();
        let messages = serde_json::from_str(fields["messages"].get()).unwrap();
        Self { body, messages, fields }
    }

    pub(crate) fn number(&self, field: &str) -> Option<u32> {
        self.fields.get(field).and_then(|json| json.get().parse().ok())
    }

    /// Returns the tokens of the whole request, according to a counter.
    pub(crate) fn tokens(&self, counter: &dyn TokenCounter) -> u64 {
        let tools = self.fields.get("tools").filter(|tools| tools.get() != "null");
        let tools = tools.map_or(0, |tools| counter.count_text(tools.get()));
        let messages = self.messages.iter().map(|message| u64::from(counter.count_message(message)));
        u64::from(tower_chat_history::tokens::REPLY_PRIMING) + u64::from(tools) + messages.sum::<u64>()
    }

    /// Returns the messages before the input, byte for byte.
    pub(crate) fn prefix(&self, input: usize) -> Vec<String> {
        let before = &self.messages[..self.messages.len() - input];
        before.iter().map(|message| message.json().to_owned()).collect()
    }
}

/// Returns the `tools` field of a request, with one function.
pub(crate) fn tool(name: &str, description: &str) -> String {
    let parameters = json!({"type": "object"});
    let function = json!({"name": name, "description": description, "parameters": parameters});
    json!([{"type": "function", "function": function}]).to_string()
}
