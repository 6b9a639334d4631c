//! Exports spans and metrics over OTLP, as configured by OpenTelemetry's environment variables.
//!
//! Nothing here is specific to chat history: any service that exports to OpenTelemetry has this code.

use std::{
    env,
    error::Error,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use opentelemetry::{global, trace::TracerProvider as _};
use opentelemetry_otlp::{MetricExporter, SpanExporter as OtlpSpanExporter};
use opentelemetry_sdk::{
    Resource,
    error::{OTelSdkError, OTelSdkResult},
    metrics::{SdkMeterProvider, Temporality, data::ResourceMetrics, exporter::PushMetricExporter},
    trace::{SdkTracerProvider, SpanData, SpanExporter},
};
use tracing_subscriber::{
    Layer as _,
    filter::{LevelFilter, Targets},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

/// A failed export, with its address.
#[derive(Debug)]
pub(crate) struct ExportError {
    endpoint: String,
    reason: String,
}

/// The exporters and their destination.
pub(crate) struct Export {
    /// Service name, protocol and address, as text.
    pub(crate) about: String,
    endpoint: String,
    traces: SdkTracerProvider,
    metrics: Option<SdkMeterProvider>,
    failed_traces: Failure,
    failed_metrics: Failure,
}

impl Export {
    /// Starts to export the spans of this program and of the library, and the library's metrics. Call it in a
    /// multi-threaded runtime, because the gRPC exporter runs in it.
    pub(crate) fn start() -> Result<Self, Box<dyn Error>> {
        let grpc = match var("OTEL_EXPORTER_OTLP_PROTOCOL").as_deref() {
            None | Some("grpc") => true,
            Some("http/protobuf") => false,
            Some(other) => {
                return Err(format!("OTEL_EXPORTER_OTLP_PROTOCOL must be grpc or http/protobuf, not {other}").into());
            }
        };

        let default = if grpc { "http://localhost:4317" } else { "http://localhost:4318" };
        let endpoint = var("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(|| var("OTEL_EXPORTER_OTLP_ENDPOINT"));
        let endpoint = endpoint.unwrap_or_else(|| default.to_owned());

        let service = var("OTEL_SERVICE_NAME").unwrap_or_else(|| "chat-history-demo".to_owned());
        let protocol = if grpc { "gRPC" } else { "HTTP" };
        let about = format!("{service} to {endpoint} (OTLP over {protocol})");
        let resource = Resource::builder().with_service_name(service).build();

        // The exporters themselves read the address, headers and timeouts from the environment.
        let spans = OtlpSpanExporter::builder();
        let exporter = if grpc { spans.with_tonic().build() } else { spans.with_http().build() }?;
        let failed_traces = Failure::default();
        let exporter = RecordFailure::new(exporter, &failed_traces);
        let traces = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.clone()).build();

        let failed_metrics = Failure::default();
        let mut metrics = None;
        if var("OTEL_METRICS_EXPORTER").as_deref() != Some("none") {
            let meters = MetricExporter::builder();
            let exporter = if grpc { meters.with_tonic().build() } else { meters.with_http().build() }?;
            let exporter = RecordFailure::new(exporter, &failed_metrics);
            let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter).with_resource(resource).build();
            // Engines that are created after this use it.
            global::set_meter_provider(provider.clone());
            metrics = Some(provider);
        }

        let targets = Targets::new().with_targets(["jaeger", "tower_chat_history"].map(|of| (of, LevelFilter::INFO)));
        let layer = tracing_opentelemetry::layer()
            .with_tracer(traces.tracer("examples"))
            // Leave out the source location and the thread of each span.
            .with_location(false)
            .with_target(false)
            .with_threads(false)
            .with_tracked_inactivity(false);
        tracing_subscriber::registry().with(layer.with_filter(targets)).try_init()?;
        Ok(Self { about, endpoint, traces, metrics, failed_traces, failed_metrics })
    }

    /// Sends all finished spans.
    pub(crate) async fn flush(&self) -> Result<(), ExportError> {
        let traces = self.traces.clone();
        self.check(&self.failed_traces, blocking(move || traces.force_flush()).await)
    }

    /// Sends the remaining spans and metrics. The outer result is that of the traces. The inner result is that of the
    /// metrics, because many receivers accept only traces.
    pub(crate) async fn end(self) -> Result<Result<(), ExportError>, ExportError> {
        let traces = self.traces.clone();
        self.check(&self.failed_traces, blocking(move || traces.shutdown()).await)?;

        let Some(metrics) = self.metrics.clone() else { return Ok(Ok(())) };
        let sent = blocking(move || metrics.shutdown()).await;
        Ok(self.check(&self.failed_metrics, sent))
    }

    fn check(&self, failure: &Failure, sent: OTelSdkResult) -> Result<(), ExportError> {
        match failure.take().or_else(|| sent.err().map(|error| error.to_string())) {
            Some(reason) => Err(ExportError { endpoint: self.endpoint.clone(), reason }),
            None => Ok(()),
        }
    }
}

/// Runs blocking work on its own thread: a flush waits for another thread, which may need this runtime.
async fn blocking(work: impl FnOnce() -> OTelSdkResult + Send + 'static) -> OTelSdkResult {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(OTelSdkError::InternalFailure(error.to_string())))
}

fn var(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} did not accept them: {}", self.endpoint, self.reason)
    }
}

impl Error for ExportError {}

/// The first failure of an exporter. OpenTelemetry itself only logs the failures of its background exports.
#[derive(Clone, Debug, Default)]
struct Failure(Arc<Mutex<Option<String>>>);

impl Failure {
    /// Takes the failure, if there is one.
    fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn check(&self, sent: OTelSdkResult) -> OTelSdkResult {
        if let Err(error) = &sent {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| error.to_string());
        }
        sent
    }
}

/// An exporter that records its first failure.
#[derive(Debug)]
struct RecordFailure<E> {
    exporter: E,
    failure: Failure,
}

impl<E> RecordFailure<E> {
    fn new(exporter: E, failure: &Failure) -> Self {
        Self { exporter, failure: failure.clone() }
    }
}

impl<E: SpanExporter> SpanExporter for RecordFailure<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.failure.check(self.exporter.export(batch).await)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl<E: PushMetricExporter> PushMetricExporter for RecordFailure<E> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        self.failure.check(self.exporter.export(metrics).await)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.exporter.temporality()
    }
}
