//! The connection of paths with wires.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{chat::ChatWire, messages::MessagesWire, responses::ResponsesWire, wire::Wire};
use http::{Method, Uri};

/// Decides by method and address if a request has history.
type Matcher = Arc<dyn Fn(&Method, &Uri) -> bool + Send + Sync>;

/// The requests that have history: which requests they are, and the [wire](Wire) of each.
///
/// The default routes are POST requests whose path ends in one of these:
///
/// | path | wire |
/// |---|---|
/// | `/chat/completions` | [`ChatWire`] |
/// | `/messages`, without a segment `threads` | [`MessagesWire`] |
/// | `/responses` | [`ResponsesWire`] |
///
/// Only the end of the path is compared, so Azure's deployments and gateways are recognized, too. Other paths need a
/// [route](Self::route) of their own. All other requests pass through untouched.
///
/// ```
/// use http::{Method, Uri};
/// use tower_chat_history::http::{ChatWire, Routes};
///
/// static CHAT: ChatWire = ChatWire::new();
/// let invoked = |method: &Method, uri: &Uri| *method == Method::POST && uri.path().ends_with("/invoke");
/// let routes = Routes::new().route(invoked, &CHAT);
/// assert!(routes.find(&Method::POST, &Uri::from_static("/models/m/invoke")).is_some());
/// assert!(routes.find(&Method::POST, &Uri::from_static("/v1/chat/completions")).is_some());
/// assert!(routes.find(&Method::POST, &Uri::from_static("/v1/embeddings")).is_none());
/// ```
///
/// Vertex AI and Bedrock have the action in the last segment of the path, and no model in the body:
///
/// ```
/// use http::{Method, Uri};
/// use tower_chat_history::http::{MessagesWire, Routes};
///
/// static MESSAGES: MessagesWire = MessagesWire::new();
/// let claude = |method: &Method, uri: &Uri| {
///     let path = uri.path();
///     let vertex = path.contains("/publishers/anthropic/models/")
///         && (path.ends_with(":rawPredict") || path.ends_with(":streamRawPredict"));
///     let bedrock = path.starts_with("/model/") && path.contains("anthropic.") && path.ends_with("/invoke");
///     *method == Method::POST && (vertex || bedrock)
/// };
/// let routes = Routes::new().route(claude, &MESSAGES);
/// for path in [
///     "/v1/projects/p/locations/l/publishers/anthropic/models/claude-opus-5:streamRawPredict",
///     "/model/us.anthropic.claude-opus-5/invoke",
/// ] {
///     assert!(routes.find(&Method::POST, &path.parse()?).is_some());
/// }
/// # Ok::<(), http::uri::InvalidUri>(())
/// ```
///
/// Bedrock's `/invoke-with-response-stream` answers with frames of its own, which are no server-sent events. Such a
/// response is passed on, and not stored.
#[derive(Clone)]
pub struct Routes {
    added: Vec<(Matcher, &'static dyn Wire)>,
    has_defaults: bool,
}

impl Routes {
    /// Creates the default routes.
    #[must_use]
    pub const fn new() -> Self {
        Self { added: Vec::new(), has_defaults: true }
    }

    /// Creates routes without any route.
    #[must_use]
    pub const fn none() -> Self {
        Self { added: Vec::new(), has_defaults: false }
    }

    /// Adds a route for the requests for which `matches` returns `true`. Routes are tried in the order in which they
    /// were added, and then the default ones.
    ///
    /// A response is read by the wire of its request.
    #[must_use]
    pub fn route(
        mut self,
        matches: impl Fn(&Method, &Uri) -> bool + Send + Sync + 'static,
        wire: &'static dyn Wire,
    ) -> Self {
        self.added.push((Arc::new(matches), wire));
        self
    }

    /// Returns the wire of a request. `None` means that the request has no history.
    #[must_use]
    pub fn find(&self, method: &Method, uri: &Uri) -> Option<&'static dyn Wire> {
        let added = self.added.iter().find(|(matches, _)| matches(method, uri));
        if let Some((_, wire)) = added {
            return Some(*wire);
        }
        if self.has_defaults { Endpoint::of(method, uri.path())?.wire() } else { None }
    }
}

impl Default for Routes {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let added: Vec<_> = self.added.iter().map(|(_, wire)| wire).collect();
        f.debug_struct("Routes").field("added", &added).field("has_defaults", &self.has_defaults).finish()
    }
}

/// A conversational endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    ChatCompletions,
    Messages,
    Responses,
    /// Any endpoint of OpenAI's threads, which keep their own history.
    Threads,
}

impl Endpoint {
    /// Returns the endpoint with this path, if the request has a message for the model.
    fn of(method: &Method, path: &str) -> Option<Self> {
        if method != Method::POST {
            return None;
        }
        let path = path.trim_end_matches('/');
        if path.ends_with("/chat/completions") {
            Some(Self::ChatCompletions)
        } else if path.split('/').any(|segment| segment == "threads") {
            Some(Self::Threads)
        } else if path.ends_with("/messages") {
            Some(Self::Messages)
        } else if path.ends_with("/responses") {
            Some(Self::Responses)
        } else {
            None
        }
    }

    /// Returns the wire of the endpoint, or `None` if the endpoint has no history.
    fn wire(self) -> Option<&'static dyn Wire> {
        let wire: &'static dyn Wire = match self {
            Self::ChatCompletions => &const { ChatWire::new() },
            Self::Messages => &const { MessagesWire::new() },
            Self::Responses => &const { ResponsesWire::new() },
            Self::Threads => return None,
        };
        Some(wire)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat/completions",
            Self::Messages => "messages",
            Self::Responses => "responses",
            Self::Threads => "threads",
        }
    }
}

/// Logs a warning about a call of a conversational endpoint that passes through without history, once per process for
/// each endpoint.
pub fn warn_without_memory(method: &Method, path: &str) {
    static WARNED: [AtomicBool; 4] = [const { AtomicBool::new(false) }; 4];
    let Some(endpoint) = Endpoint::of(method, path) else { return };
    if !WARNED[endpoint as usize].swap(true, Ordering::Relaxed) {
        tracing::warn!(
            endpoint = endpoint.name(),
            "calls of this endpoint pass through without memory, because it has no history; mark such calls as \
             stateless to avoid this warning"
        );
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::ConversationId;

    use super::*;
    use crate::{call::CallOptions, engine::InputMode, http::request::open_body};

    /// Real paths of providers and gateways, as of November 2026, with the endpoint of a POST request to each.
    const PATHS: [(&str, Option<Endpoint>); 36] = [
        ("/v1/chat/completions", Some(Endpoint::ChatCompletions)),
        ("/v1/chat/completions/", Some(Endpoint::ChatCompletions)),
        ("/chat/completions", Some(Endpoint::ChatCompletions)),
        ("/openai/v1/chat/completions", Some(Endpoint::ChatCompletions)),
        ("/api/v1/chat/completions", Some(Endpoint::ChatCompletions)),
        ("/v1beta/openai/chat/completions", Some(Endpoint::ChatCompletions)),
        ("/openai/deployments/gpt-5/chat/completions", Some(Endpoint::ChatCompletions)),
        ("/v1/projects/p/locations/l/endpoints/openapi/chat/completions", Some(Endpoint::ChatCompletions)),
        ("/models/chat/completions", Some(Endpoint::ChatCompletions)),
        ("/v1/chat/completions/chatcmpl-1", None),
        ("/v1/chat/completions/chatcmpl-1/messages", Some(Endpoint::Messages)),
        ("/v1/completions", None),
        ("/v1/messages", Some(Endpoint::Messages)),
        ("/anthropic/v1/messages", Some(Endpoint::Messages)),
        ("/v1/messages/count_tokens", None),
        ("/v1/messages/batches", None),
        ("/v1/messages/batches/msgbatch_1/cancel", None),
        ("/v1/messages/batches/msgbatch_1/results", None),
        ("/v1/responses", Some(Endpoint::Responses)),
        ("/openai/responses", Some(Endpoint::Responses)),
        ("/openai/v1/responses/", Some(Endpoint::Responses)),
        ("/v1/responses/resp_1", None),
        ("/v1/responses/resp_1/cancel", None),
        ("/v1/responses/compact", None),
        ("/v1/responses/input_tokens", None),
        ("/v1/conversations/conv_1/items", None),
        ("/v1/threads", Some(Endpoint::Threads)),
        ("/v1/threads/runs", Some(Endpoint::Threads)),
        ("/v1/threads/thread_1/messages", Some(Endpoint::Threads)),
        ("/v1/threads/thread_1/runs/run_1/submit_tool_outputs", Some(Endpoint::Threads)),
        ("/v1/embeddings", None),
        ("/v1/models", None),
        ("/v1/projects/p/locations/l/publishers/anthropic/models/m:streamRawPredict", None),
        ("/model/anthropic.claude/invoke-with-response-stream", None),
        ("/v1beta/models/gemini-3-pro:generateContent", None),
        ("/api/chat", None),
    ];

    #[test]
    fn endpoints_are_recognized_by_their_paths() {
        for (path, expected) in PATHS {
            assert_eq!(Endpoint::of(&Method::POST, path), expected, "{path}");
            assert_eq!(Endpoint::of(&Method::GET, path), None, "{path}");
            let has_history = Routes::new().find(&Method::POST, &path.parse().unwrap()).is_some();
            let is_served = expected.is_some_and(|endpoint| endpoint != Endpoint::Threads);
            assert_eq!(has_history, is_served, "{path}");
            assert!(Routes::none().find(&Method::POST, &path.parse().unwrap()).is_none(), "{path}");
        }
    }

    #[test]
    fn a_query_and_a_host_do_not_matter() {
        for uri in ["https://x.test/v1/chat/completions?api-version=1", "/v1/chat/completions?a=/x"] {
            assert!(Routes::new().find(&Method::POST, &uri.parse().unwrap()).is_some(), "{uri}");
        }
        let uri = "https://chat.test/x?path=/v1/chat/completions".parse().unwrap();
        assert!(Routes::new().find(&Method::POST, &uri).is_none());
    }

    #[test]
    fn added_routes_work_without_the_default_ones() {
        static OWN: ChatWire = ChatWire::new();
        let bedrock = |_: &Method, uri: &Uri| uri.path().starts_with("/model/") && uri.path().ends_with("/invoke");
        let routes = Routes::none().route(bedrock, &OWN);
        assert!(routes.find(&Method::POST, &"/model/m/invoke".parse().unwrap()).is_some());
        assert!(routes.find(&Method::POST, &"/v1/chat/completions".parse().unwrap()).is_none());
    }

    #[tokio::test]
    async fn a_call_has_the_wire_of_its_route() {
        static OWN: ChatWire = ChatWire::new();
        static MESSAGES: MessagesWire = MessagesWire::new().mark_history();
        let on = |path: &'static str| move |_: &Method, uri: &Uri| uri.path() == path;
        let routes = Routes::new().route(on("/a"), &MESSAGES).route(on("/b"), &OWN);
        for (path, list) in [
            ("/v1/chat/completions", "messages"),
            ("/v1/messages", "messages"),
            ("/v1/responses", "input"),
            ("/a", "messages"),
            ("/b", "messages"),
        ] {
            let wire = routes.find(&Method::POST, &path.parse().unwrap()).unwrap();
            let body = format!(r#"{{"{list}":[{{"role":"user","content":"u"}}]}}"#).into();
            let (id, options) = (ConversationId::new(["acme"]).unwrap(), CallOptions::new());
            let (turn, _) = open_body(wire, id, options, InputMode::New, body).await.unwrap();
            let found = *turn.read_by.get::<&'static dyn Wire>().unwrap();
            assert!(std::ptr::addr_eq(found, wire), "{path}");
        }
    }
}
