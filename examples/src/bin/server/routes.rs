//! The HTTP routes, and their errors.

use std::{convert::Infallible, sync::Arc, time::Duration};

use async_openai::types::chat::{
    ChatCompletionRequestUserMessage, ChatCompletionResponseStream, CreateChatCompletionRequest,
};
use axum::{
    Json, Router,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
    routing::{delete, post},
};
use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use serde_json::json;
use tower::{Service as _, ServiceExt as _};
use tower_chat_history::{
    BoxError, ConversationId, ExchangeId, HistoryError, HistoryStore, HistoryStoreExt as _, InConversation, Message,
    ReportHandle, StoreError,
    report::TurnOutcome,
    store::{ConversationIdError, InvalidValue},
};

use crate::stack::Chat;

#[derive(Clone)]
pub(crate) struct App {
    pub(crate) chat: Chat,
    pub(crate) store: Arc<dyn HistoryStore>,
    pub(crate) model: String,
}

pub(crate) fn router(app: App) -> Router {
    Router::new()
        .route("/conversations/{name}/messages", post(ask).get(read))
        .route("/conversations/{name}", delete(remove))
        .with_state(app)
}

#[derive(Deserialize)]
struct Question {
    text: String,
}

async fn ask(
    State(app): State<App>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Json(question): Json<Question>,
) -> Result<Response, Failure> {
    let user = ChatCompletionRequestUserMessage { content: question.text.into(), name: None };
    let request = CreateChatCompletionRequest {
        model: app.model,
        messages: vec![user.into()],
        ..CreateChatCompletionRequest::default()
    };

    let mut call = InConversation::new(conversation(&headers, &name)?, request);
    if let Some(key) = headers.get("idempotency-key") {
        call = call.exchange(ExchangeId::new(key.to_str().unwrap_or_default())?);
    }
    let (call, report) = call.with_report();

    let mut chat = app.chat;
    match chat.ready().await?.call(call).await {
        Ok(reply) => Ok(events(reply, report)),
        Err(error) => match error.downcast_ref() {
            // The request was answered before: repeat the stored reply without calling the model.
            Some(HistoryError::AlreadyRecorded(recorded)) => Ok(replay(recorded.exchange.messages.last())),
            _ => Err(error.into()),
        },
    }
}

/// Streams the text of the reply, then an event that says whether it was saved.
fn events(reply: ChatCompletionResponseStream, report: ReportHandle) -> Response {
    let pieces = reply.map(|chunk| match chunk {
        Ok(chunk) => {
            let text = chunk.choices.into_iter().filter_map(|choice| choice.delta.content.or(choice.delta.refusal));
            text_event(&text.collect::<String>())
        }
        Err(error) => error_event(&error.to_string()),
    });

    let end = stream::once(async {
        match report.await.map(|report| report.outcome.clone()) {
            Some(TurnOutcome::Stored { seq, .. } | TurnOutcome::Duplicate { seq, .. }) => saved_event(seq.get()),
            _ => error_event("the answer was not saved"),
        }
    });
    sse(pieces.chain(end).map(Ok))
}

fn replay(reply: Option<&Message>) -> Response {
    let text = reply.map(|message| message.text().into_owned()).unwrap_or_default();
    sse(stream::iter([Ok(text_event(&text))]))
}

fn sse(events: impl futures_util::Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

fn text_event(text: &str) -> Event {
    Event::default().data(json!({ "text": text }).to_string())
}

fn saved_event(position: u64) -> Event {
    Event::default().event("saved").data(json!({ "position": position }).to_string())
}

fn error_event(error: &str) -> Event {
    Event::default().event("error").data(json!({ "error": error }).to_string())
}

async fn read(
    State(app): State<App>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Vec<Message>>, Failure> {
    let id = conversation(&headers, &name)?;
    Ok(Json(app.store.conversation(&id).messages().await?))
}

async fn remove(State(app): State<App>, Path(name): Path<String>, headers: HeaderMap) -> Result<StatusCode, Failure> {
    let id = conversation(&headers, &name)?;
    app.store.conversation(&id).clear().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the conversation's id. User and name are separate parts of it, so no name can refer to another user's
/// conversation.
fn conversation(headers: &HeaderMap, name: &str) -> Result<ConversationId, Failure> {
    let user = headers.get("x-user").and_then(|user| user.to_str().ok()).unwrap_or_default();
    if user.is_empty() {
        return Err(Failure::bad_request("missing header x-user"));
    }
    Ok(ConversationId::new(["server", user, name])?)
}

/// An error for the client of this server.
#[derive(Debug)]
struct Failure {
    status: StatusCode,
    message: String,
    /// The time after which the call can succeed, if a rate was reached.
    retry_after: Option<Duration>,
}

impl Failure {
    fn bad_request(message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, message: message.into(), retry_after: None }
    }

    /// Creates the failure of a store. It has only the error's kind: the error's text contains its causes, which
    /// clients should not see.
    fn store(error: &StoreError) -> Self {
        let message = format!("the conversation's store failed: {}", error.kind());
        Self { status: StatusCode::SERVICE_UNAVAILABLE, message, retry_after: None }
    }
}

impl From<ConversationIdError> for Failure {
    fn from(error: ConversationIdError) -> Self {
        Self::bad_request(error.to_string())
    }
}

impl From<InvalidValue> for Failure {
    fn from(error: InvalidValue) -> Self {
        Self::bad_request(error.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::store(&error)
    }
}

impl From<BoxError> for Failure {
    fn from(error: BoxError) -> Self {
        let mut retry_after = None;
        let status = match error.downcast_ref::<HistoryError>() {
            Some(HistoryError::Load(error)) => return Self::store(error),
            Some(HistoryError::Input(_)) => StatusCode::BAD_REQUEST,
            Some(HistoryError::Limit(exceeded)) => {
                retry_after = exceeded.retry_after;
                StatusCode::from_u16(exceeded.http_status()).unwrap_or(StatusCode::FORBIDDEN)
            }
            Some(HistoryError::QueueFull { .. } | HistoryError::QueueTimeout(_)) => StatusCode::TOO_MANY_REQUESTS,
            Some(_) => StatusCode::SERVICE_UNAVAILABLE,
            // The model failed.
            None => StatusCode::BAD_GATEWAY,
        };
        Self { status, message: error.to_string(), retry_after }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(json!({ "error": self.message }))).into_response();
        if let Some(after) = self.retry_after {
            let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}
