//! The cases and the invariants that depend neither on the integration nor on the format, in each of the three formats
//! over HTTP, with every store.

mod invariants;
mod reply;
mod request;
mod save;
mod stream;
mod upstream;

use std::sync::Arc;

use http::Request;
use http_body_util::BodyExt as _;
use test_providers::formats::Api;
use tests::Storage;
use tower::{Layer as _, ServiceExt as _};
use tower_chat_history::{
    BoxError, CallOptions, ChatHistoryLayer, ConversationId, HistoryOptions, HistoryStoreExt as _, Message, Role,
    TurnReport,
    adapt::extract::FromExtensions,
    http::{HistoryBody, HttpHistory},
};

use self::upstream::{Answer, Upstream};

/// A conversation in one of the formats.
struct Talk {
    api: Api,
    id: ConversationId,
    upstream: Upstream,
    layer: ChatHistoryLayer<HttpHistory<FromExtensions>>,
}

/// Returns the constant reply before a question.
fn no_reply(api: Api) -> String {
    Message::compose(request::dialect(api), &Role::Assistant, "[no reply]").unwrap().json().to_owned()
}

/// The result of a call: the bytes of the response, and the error that ended it, if any.
struct Received {
    status: u16,
    text: String,
    error: Option<BoxError>,
    /// `None` if the call has failed.
    report: Option<Arc<TurnReport>>,
}

impl Received {
    fn report(&self) -> &TurnReport {
        self.report.as_deref().unwrap()
    }
}

impl Talk {
    fn new(api: Api, storage: &Storage) -> Self {
        Self::with_options(api, storage, HistoryOptions::new())
    }

    fn with_options(api: Api, storage: &Storage, options: HistoryOptions) -> Self {
        let adapter = HttpHistory::new().extract_by(FromExtensions::new());
        let layer = ChatHistoryLayer::with_options(storage.store.clone(), adapter, options);
        Self { api, id: storage.conversation(), upstream: Upstream::default(), layer }
    }

    /// Returns a request of this conversation.
    fn request(&self, body: String, options: CallOptions) -> Request<String> {
        let request = Request::post(format!("https://llm.test{}", self.api.path()));
        request.extension(self.id.clone()).extension(options).body(body).unwrap()
    }

    /// Sends a request. `answer` is the response of the provider.
    async fn send(&self, request: Request<String>, answer: Answer) -> Result<http::Response<HistoryBody>, BoxError> {
        self.upstream.push(answer);
        let sent = self.layer.layer(self.upstream.clone()).oneshot(request).await;
        self.upstream.forget();
        sent
    }

    /// Makes a call with these messages, and reads the response to its end.
    async fn call(&self, messages: &[&str], answer: Answer) -> Result<Received, BoxError> {
        self.call_with(messages, CallOptions::new(), answer).await
    }

    async fn call_with(&self, messages: &[&str], options: CallOptions, answer: Answer) -> Result<Received, BoxError> {
        let (options, report) = options.with_report();
        let body = self.api.body(messages, answer.is_stream());
        let response = self.send(self.request(body, options), answer).await?;
        let (head, mut body) = response.into_parts();
        let (mut bytes, mut error) = (Vec::new(), None);
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => bytes.extend(frame.into_data().unwrap()),
                Err(broken) => error = Some(broken),
            }
        }
        let text = String::from_utf8(bytes).unwrap();
        Ok(Received { status: head.status.as_u16(), text, error, report: report.await })
    }

    /// Asks a question in a call of this kind, and gets this answer.
    async fn ask(&self, streams: bool, question: &str, answer: &str) -> Received {
        let answer = if streams { self.streamed(answer) } else { self.whole(answer) };
        self.call(&[&Api::user(question)], answer).await.unwrap()
    }

    fn whole(&self, text: &str) -> Answer {
        Answer::Whole(200, self.api.whole(&self.api.said(text), self.api.stop()))
    }

    fn streamed(&self, text: &str) -> Answer {
        Answer::Events(self.api.events(&text.split_inclusive(|_| true).collect::<Vec<_>>()))
    }

    /// Returns the messages of a turn.
    fn turn(&self, question: &str, answer: &str) -> [String; 2] {
        [Api::user(question), self.api.said(answer)]
    }

    /// Returns the number of requests that reached the provider.
    fn calls(&self) -> usize {
        self.upstream.requests().len()
    }

    /// Checks that the newest request has exactly these messages.
    fn check_sent(&self, streams: bool, messages: &[String]) {
        // A lone surrogate of the log is sent as U+FFFD.
        let sent = messages.iter().map(|json| Message::in_dialect(request::dialect(self.api), json.as_str()).unwrap());
        let sent: Vec<String> = sent.map(|message| message.sendable().json().to_owned()).collect();
        let sent: Vec<&str> = sent.iter().map(String::as_str).collect();
        assert_eq!(self.upstream.requests().last().unwrap(), &self.api.body(&sent, streams), "{:?}", self.api);
    }

    /// Checks that the log has exactly these messages.
    async fn check_log(&self, storage: &Storage, messages: &[String]) {
        let log = storage.store.conversation(&self.id).messages().await.unwrap();
        assert_eq!(log.iter().map(Message::json).collect::<Vec<_>>(), messages, "{:?}", self.api);
    }
}
