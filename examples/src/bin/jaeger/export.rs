//! Where spans and metrics go: over OTLP, as OpenTelemetry's environment variables say.
//!
//! Nothing of it knows of chat history: it is what any service has that exports by OpenTelemetry.

use std::{env, error::Error, fmt};

use opentelemetry::{global, trace::TracerProvider as _};
use opentelemetry_otlp::{MetricExporter, SpanExporter};
use opentelemetry_sdk::{
    Resource,
    error::{OTelSdkError, OTelSdkResult},
    metrics::SdkMeterProvider,
    trace::SdkTracerProvider,
};
use tracing_subscriber::{
    Layer as _,
    filter::{LevelFilter, Targets},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use crate::watched::{Failure, Watched};

/// Says that it failed, with the address.
#[derive(Debug)]
pub(crate) struct NotExported {
    endpoint: String,
    why: String,
}

/// The exporters, and where they send to.
pub(crate) struct Export {
    /// Service name, protocol and address, for people.
    pub(crate) about: String,
    endpoint: String,
    traces: SdkTracerProvider,
    metrics: Option<SdkMeterProvider>,
    failed_traces: Failure,
    failed_metrics: Failure,
}

impl Export {
    /// Sends spans of this program and of the library, and the library's metrics, from now on. To be called in a runtime of
    /// more than one thread: gRPC lives in it.
    pub(crate) fn start() -> Result<Self, Box<dyn Error>> {
        let grpc = match var("OTEL_EXPORTER_OTLP_PROTOCOL").as_deref() {
            None | Some("grpc") => true,
            Some("http/protobuf") => false,
            Some(other) => {
                return Err(format!("OTEL_EXPORTER_OTLP_PROTOCOL is {other}, not grpc or http/protobuf").into());
            }
        };
        let default = if grpc { "http://localhost:4317" } else { "http://localhost:4318" };
        let endpoint = var("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(|| var("OTEL_EXPORTER_OTLP_ENDPOINT"));
        let endpoint = endpoint.unwrap_or_else(|| default.to_owned());
        let service = var("OTEL_SERVICE_NAME").unwrap_or_else(|| "chat-history-demo".to_owned());
        let protocol = if grpc { "gRPC" } else { "HTTP" };
        let about = format!("{service}, by OTLP over {protocol} to {endpoint}");
        let resource = Resource::builder().with_service_name(service).build();

        // The exporters read the address, and headers and timeouts, from the environment.
        let spans = SpanExporter::builder();
        let exporter = if grpc { spans.with_tonic().build() } else { spans.with_http().build() }?;
        let (failed_traces, failed_metrics) = (Failure::default(), Failure::default());
        let exporter = Watched::new(exporter, &failed_traces);
        let traces = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.clone()).build();

        let mut metrics = None;
        if var("OTEL_METRICS_EXPORTER").as_deref() != Some("none") {
            let meters = MetricExporter::builder();
            let exporter = if grpc { meters.with_tonic().build() } else { meters.with_http().build() }?;
            let exporter = Watched::new(exporter, &failed_metrics);
            let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter).with_resource(resource).build();
            // Engines that are made from here on count by it.
            global::set_meter_provider(provider.clone());
            metrics = Some(provider);
        }

        let targets = Targets::new().with_targets(["jaeger", "tower_chat_history"].map(|of| (of, LevelFilter::INFO)));
        let layer = tracing_opentelemetry::layer()
            .with_tracer(traces.tracer("examples"))
            // Else each span has where it stands in the source, and its thread.
            .with_location(false)
            .with_target(false)
            .with_threads(false)
            .with_tracked_inactivity(false);
        tracing_subscriber::registry().with(layer.with_filter(targets)).try_init()?;
        Ok(Self { about, endpoint, traces, metrics, failed_traces, failed_metrics })
    }

    /// Sends what there is.
    pub(crate) async fn flush(&self) -> Result<(), NotExported> {
        let traces = self.traces.clone();
        self.check(&self.failed_traces, blocking(move || traces.force_flush()).await)
    }

    /// Sends what is left. The metrics' failure is told apart: many a receiver takes traces only.
    pub(crate) async fn end(self) -> Result<Result<(), NotExported>, NotExported> {
        let traces = self.traces.clone();
        self.check(&self.failed_traces, blocking(move || traces.shutdown()).await)?;
        let Some(metrics) = self.metrics.clone() else { return Ok(Ok(())) };
        let sent = blocking(move || metrics.shutdown()).await;
        Ok(self.check(&self.failed_metrics, sent))
    }

    fn check(&self, failure: &Failure, sent: OTelSdkResult) -> Result<(), NotExported> {
        match failure.take().or_else(|| sent.err().map(|error| error.to_string())) {
            Some(why) => Err(NotExported { endpoint: self.endpoint.clone(), why }),
            None => Ok(()),
        }
    }
}

/// Flushing waits for another thread, which may need this one's runtime.
async fn blocking(work: impl FnOnce() -> OTelSdkResult + Send + 'static) -> OTelSdkResult {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(OTelSdkError::InternalFailure(error.to_string())))
}

fn var(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

impl fmt::Display for NotExported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} did not take it: {}", self.endpoint, self.why)
    }
}

impl Error for NotExported {}
