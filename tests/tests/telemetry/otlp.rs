//! A collector that receives spans over OTLP/HTTP.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, LazyLock, Mutex},
    time::{Duration, Instant},
};

use axum::{Router, body::Bytes, extract::State, http::StatusCode, routing::post};
use opentelemetry::trace::{TraceId, TracerProvider as _};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_proto::tonic::{collector::trace::v1::ExportTraceServiceRequest, trace::v1::Span};
use opentelemetry_sdk::{
    propagation::TraceContextPropagator,
    trace::{BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider},
};
use prost::Message as _;
use tracing_subscriber::{Layer as _, filter::filter_fn, layer::SubscriberExt as _};

/// The received spans.
type Received = Arc<Mutex<Vec<Span>>>;

/// The subscriber of this process, its exporter and the collector.
pub(crate) struct Pipeline {
    received: Received,
    provider: SdkTracerProvider,
}

/// Returns the pipeline. The first call installs the subscriber.
pub(crate) fn pipeline() -> &'static Pipeline {
    static PIPELINE: LazyLock<Pipeline> = LazyLock::new(|| {
        // The exporter's client blocks, and the collector has its own runtime. Neither may be created within
        // another runtime.
        std::thread::spawn(Pipeline::start).join().unwrap()
    });
    &PIPELINE
}

impl Pipeline {
    fn start() -> Self {
        let received = Received::default();
        let address = collect(Arc::clone(&received)).unwrap();
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("http://{address}/v1/traces"))
            // The spans of an export that fails are lost.
            .with_timeout(Duration::from_secs(60))
            .build()
            .unwrap();
        // The queue must be large enough for all spans.
        let config = BatchConfigBuilder::default().with_max_queue_size(1 << 16).build();
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(config).build();
        let provider =
            SdkTracerProvider::builder().with_sampler(Sampler::AlwaysOn).with_span_processor(processor).build();
        let layer = tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("tests"))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_target(false);
        let ours = |target: &str| target.starts_with("tower_chat_history") || target.starts_with("telemetry");
        let layer = layer.with_filter(filter_fn(move |metadata| ours(metadata.target())));
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).unwrap();
        opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
        Self { received, provider }
    }

    /// Returns all spans of a trace, when its first one has arrived. A span is exported after those within
    /// it.
    pub(crate) async fn trace(&self, trace: TraceId, first: &str) -> Vec<Span> {
        let begun = Instant::now();
        loop {
            // If a flush takes too long, the next round repeats it.
            let flushed = self.provider.force_flush();
            let spans = self.received(trace);
            if spans.iter().any(|span| span.name == first) {
                return spans;
            }
            let names: Vec<_> = spans.iter().map(|span| &span.name).collect();
            assert!(begun.elapsed() < Duration::from_secs(60), "still open; ended are {names:?}; {flushed:?}");
            // A task of this runtime may still hold a span.
            tokio::task::yield_now().await;
        }
    }

    fn received(&self, trace: TraceId) -> Vec<Span> {
        let all = self.received.lock().unwrap();
        all.iter().filter(|span| span.trace_id == trace.to_bytes()).cloned().collect()
    }
}

/// Receives spans on a free port until the process ends.
fn collect(received: Received) -> io::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let routes = Router::new().route("/v1/traces", post(receive)).with_state(received);
    std::thread::spawn(move || {
        runtime.block_on(async { axum::serve(tokio::net::TcpListener::from_std(listener)?, routes).await })
    });
    Ok(address)
}

async fn receive(State(received): State<Received>, body: Bytes) -> StatusCode {
    let Ok(request) = ExportTraceServiceRequest::decode(body) else { return StatusCode::BAD_REQUEST };
    let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
    received.lock().unwrap().extend(scopes.flat_map(|scope| scope.spans));
    // An empty body is an empty message, which means that everything was accepted.
    StatusCode::OK
}
