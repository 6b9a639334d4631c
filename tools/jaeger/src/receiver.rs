//! Receives OTLP over gRPC and HTTP and passes the spans to the store.

use std::sync::Arc;

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use otlp_embedded::{
    StateRef, TraceService, TraceServiceImpl,
    proto::collector::trace::v1::{ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse},
};
use prost::Message;
use tonic::{Request, Status};

use crate::translate::translate;

/// The maximum size of a request in bytes, for both protocols.
pub(crate) const MAX_REQUEST_BYTES: usize = 16 << 20;

const PROTOBUF: &str = "application/x-protobuf";

#[derive(Clone)]
pub(crate) struct Receiver {
    store: Arc<TraceServiceImpl>,
}

impl Receiver {
    pub(crate) fn new(state: &StateRef) -> Self {
        Self { store: Arc::new(TraceServiceImpl::new(StateRef::clone(state))) }
    }

    /// Returns the routes of OTLP/HTTP.
    pub(crate) fn http(self) -> Router {
        Router::new()
            .route("/v1/traces", post(export_http))
            .layer(DefaultBodyLimit::max(MAX_REQUEST_BYTES))
            .with_state(self)
    }

    async fn receive(&self, mut request: ExportTraceServiceRequest) -> Result<ExportTraceServiceResponse, Status> {
        let rejected_spans = translate(&mut request);
        let mut response = self.store.export(Request::new(request)).await?.into_inner();
        if rejected_spans > 0 {
            let error_message =
                "a span needs a trace id of 16 bytes, a span id of 8 bytes, and a parent other than itself";
            response.partial_success =
                Some(ExportTracePartialSuccess { rejected_spans, error_message: error_message.to_owned() });
        }
        Ok(response)
    }
}

#[tonic::async_trait]
impl TraceService for Receiver {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, Status> {
        self.receive(request.into_inner()).await.map(tonic::Response::new)
    }
}

async fn export_http(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> Response {
    let named = |name| headers.get(name).map_or("", |value| value.to_str().unwrap_or("?"));
    if !named(header::CONTENT_TYPE).starts_with(PROTOBUF) {
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, format!("the only supported content type is {PROTOBUF}\n"))
            .into_response();
    }
    if !matches!(named(header::CONTENT_ENCODING), "" | "identity") {
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, "compressed requests are not supported\n").into_response();
    }
    let request = match ExportTraceServiceRequest::decode(body) {
        Ok(request) => request,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    match receiver.receive(request).await {
        Ok(response) => ([(header::CONTENT_TYPE, PROTOBUF)], response.encode_to_vec()).into_response(),
        Err(status) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{}\n", status.message())).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use otlp_embedded::{
        Config,
        proto::trace::v1::{ResourceSpans, ScopeSpans, Span},
    };

    use super::*;

    fn request(span_ids: &[&[u8]]) -> ExportTraceServiceRequest {
        let span = |id: &&[u8]| Span { trace_id: vec![1; 16], span_id: id.to_vec(), ..Span::default() };
        let scope_spans = vec![ScopeSpans { spans: span_ids.iter().map(span).collect(), ..ScopeSpans::default() }];
        ExportTraceServiceRequest { resource_spans: vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }] }
    }

    fn receiver() -> (StateRef, Receiver) {
        let state = otlp_embedded::State::new(Config { max_length: 10, max_memory_usage: 1 << 20 });
        let receiver = Receiver::new(&state);
        (state, receiver)
    }

    async fn post(receiver: Receiver, content_type: &'static str, body: Vec<u8>) -> StatusCode {
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(content_type))]);
        export_http(State(receiver), headers, body.into()).await.status()
    }

    #[tokio::test]
    async fn a_span_sent_over_http_is_stored() {
        let (state, receiver) = receiver();
        assert_eq!(post(receiver, PROTOBUF, request(&[&[7; 8]]).encode_to_vec()).await, StatusCode::OK);
        let trace = state.write().await.get_by_id(&[1; 16]).expect("the trace is stored").to_jaeger_batch();
        assert_eq!(trace["data"][0]["spans"][0]["spanID"], "0707070707070707");
    }

    #[tokio::test]
    async fn json_and_invalid_protobuf_are_rejected() {
        let (state, receiver) = receiver();
        let json = post(receiver.clone(), "application/json", b"{}".to_vec()).await;
        assert_eq!(json, StatusCode::UNSUPPORTED_MEDIA_TYPE);
        assert_eq!(post(receiver, PROTOBUF, vec![0xff; 9]).await, StatusCode::BAD_REQUEST);
        assert_eq!(state.read().await.len(), 0);
    }

    #[tokio::test]
    async fn rejected_spans_are_counted_in_the_response() {
        let (state, receiver) = receiver();
        let response = receiver.receive(request(&[&[7; 8], &[]])).await.expect("the other span is accepted");
        assert_eq!(response.partial_success.map(|partial| partial.rejected_spans), Some(1));
        assert_eq!(state.read().await.len(), 1);
    }
}
