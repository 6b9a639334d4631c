//! Exports traces of a scripted chat service, for viewing in Jaeger: `cargo run -p examples --bin jaeger`.
//!
//! The service calls mock models in this process, and exports its traces over OTLP. Its scenes show a conversation that
//! grows and is trimmed, cleared tool results, summaries, recall, a call that waits, a stream whose caller disconnects,
//! a model that fails, and two processes in one conversation. Every request is one trace. For each scene, the program
//! prints a description, and the spans and attributes to look at.
//!
//! ```text
//! docker run --rm -p 16686:16686 -p 4317:4317 -p 4318:4318 \
//!     cr.jaegertracing.io/jaegertracing/jaeger:2.21.0
//! cargo run -p examples --bin jaeger
//! ```
//!
//! Then open <http://localhost:16686>. Without Docker, `tools/jaeger` serves the same UI.
//!
//! OpenTelemetry's environment variables set the destination: `OTEL_EXPORTER_OTLP_ENDPOINT`,
//! `OTEL_EXPORTER_OTLP_PROTOCOL` (`grpc`, the default, or `http/protobuf`) and `OTEL_SERVICE_NAME`. The library's
//! metrics are exported too, unless `OTEL_METRICS_EXPORTER` is `none`. If the traces cannot be sent, the program
//! prints an error after the first scene and exits with code 1.

mod agent;
mod chat;
mod export;
mod model;
mod scenes;

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use tower_chat_history::{BoxError, telemetry::Telemetry};

use self::{
    export::{Export, ExportError},
    model::{Models, Pace},
    scenes::Stage,
};

/// Export traces of a scripted chat service over OTLP, to look at them in Jaeger.
#[derive(Parser)]
struct Args {
    /// Conversation ids in spans: none, hashed or raw. Raw ids often identify users
    #[arg(long, value_enum, default_value = "off")]
    conversation_ids: Ids,
    /// Response time of the mock models, in percent of a typical model's
    #[arg(long, value_name = "PERCENT", default_value_t = 100)]
    pace: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum Ids {
    Off,
    Hashed,
    Raw,
}

impl Ids {
    fn telemetry(self) -> Telemetry {
        match self {
            Self::Off => Telemetry::new(),
            // A real service would read the key from its secret store.
            Self::Hashed => Telemetry::new().hashed_conversation_ids("the demo's key"),
            Self::Raw => Telemetry::new().raw_conversation_ids(),
        }
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if error.is::<ExportError>() {
                eprintln!("jaeger: the traces could not be sent: {error}");
                eprintln!("Is Jaeger running? The README describes how to start it, with and without Docker.");
            } else {
                eprintln!("jaeger: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<(), BoxError> {
    let export = Export::start().map_err(|error| error.to_string())?;
    println!("Sending traces of {}.", export.about);
    println!("To find a trace in Jaeger, enter its id under \"Lookup by Trace ID\".");
    if matches!(args.conversation_ids, Ids::Off) {
        println!("Spans have no conversation ids; use --conversation-ids hashed (or raw) to add them.");
    }

    let directory = tempfile::tempdir()?;
    let stage = Stage {
        database: directory.path().join("demo.db"),
        telemetry: args.conversation_ids.telemetry(),
        pace: Pace(args.pace),
        models: Models::new(Pace(args.pace)),
    };
    let played = play(&stage, &export).await;

    // Send the finished traces even after an error.
    let sent = export.end().await;
    played?;
    match sent? {
        Ok(()) => println!("\nAll traces were sent."),
        Err(metrics) => {
            println!("\nAll traces were sent. The metrics could not be sent: {metrics}.");
            println!("Jaeger accepts only traces. Set OTEL_METRICS_EXPORTER=none to export no metrics.");
        }
    }
    Ok(())
}

/// Plays all scenes. Sends the traces after each scene, so that they can be viewed immediately, and an export error
/// ends the program early.
async fn play(stage: &Stage, export: &Export) -> Result<(), BoxError> {
    stage.trims().await?;
    export.flush().await?;
    stage.clears().await?;
    export.flush().await?;
    stage.summarizes().await?;
    export.flush().await?;
    stage.recalls().await?;
    export.flush().await?;
    stage.waits().await?;
    export.flush().await?;
    stage.streams().await?;
    export.flush().await?;
    stage.conflicts().await?;
    Ok(export.flush().await?)
}
