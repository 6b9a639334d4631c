//! What the library's spans look like in Jaeger: `cargo run -p examples --bin jaeger`.
//!
//! A scripted service talks to mock models in this process and exports its traces over OTLP. It grows a conversation, trims
//! it, clears tool results, has summaries made, is overtaken by another process, is left by its caller, and fails. Every
//! request is one trace; the program prints which one shows what, and where to look.
//!
//! ```text
//! docker run --rm -p 16686:16686 -p 4317:4317 -p 4318:4318 cr.jaegertracing.io/jaegertracing/jaeger:2.21.0
//! cargo run -p examples --bin jaeger      then open http://localhost:16686
//! ```
//!
//! Where it exports to is said by OpenTelemetry's environment variables: `OTEL_EXPORTER_OTLP_ENDPOINT`,
//! `OTEL_EXPORTER_OTLP_PROTOCOL` (`grpc`, the default, or `http/protobuf`) and `OTEL_SERVICE_NAME`. The library's metrics go
//! there too, unless `OTEL_METRICS_EXPORTER` is `none`. If the traces cannot be sent, the program says so, ends after its
//! first scene, and its exit code is 1.

mod agent;
mod chat;
mod export;
mod model;
mod request;
mod scenes;
mod watched;

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use tower_chat_history::{BoxError, telemetry::Telemetry};

use self::{
    export::{Export, NotExported},
    model::{Models, Pace},
    scenes::Stage,
};

/// Exports traces of a scripted chat service by OTLP, to look at them in Jaeger.
#[derive(Parser)]
struct Args {
    /// Whether and how conversations are named in spans. Raw ids mostly name users.
    #[arg(long, value_enum, default_value = "off")]
    conversation_ids: Ids,
    /// How long the mock models take, in percent of the time that a model takes.
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
            // A service would read its key from where its secrets are.
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
            if error.is::<NotExported>() {
                eprintln!("jaeger: no traces could be sent: {error}");
                eprintln!("Is Jaeger running? The README says how to start it, with and without docker (\"See it\").");
            } else {
                eprintln!("jaeger: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<(), BoxError> {
    let export = Export::start().map_err(|error| error.to_string())?;
    println!("Derived of {}", export.about);
    println!("In Jaeger, a trace's id finds it (\"Lookup by Trace ID\").");
    if matches!(args.conversation_ids, Ids::Off) {
        println!("Spans do not say whose conversation it is: --conversation-ids hashed, or raw, has them say so.");
    }
    let directory = tempfile::tempdir()?;
    let stage = Stage {
        database: directory.path().join("demo.db"),
        telemetry: args.conversation_ids.telemetry(),
        pace: Pace(args.pace),
        models: Models::new(Pace(args.pace)),
    };
    let played = play(&stage, &export).await;
    // Whatever went wrong, what there is can be looked at.
    let sent = export.end().await;
    played?;
    match sent? {
        Ok(()) => println!("\nAll traces were sent."),
        Err(metrics) => {
            println!("\nAll traces were sent. The metrics were not: {metrics}.");
            println!("Jaeger takes traces only; with OTEL_METRICS_EXPORTER=none they are not sent.");
        }
    }
    Ok(())
}

/// Each scene is sent when it is over: it can be looked at while the next one plays, and what is wrong shows at once.
async fn play(stage: &Stage, export: &Export) -> Result<(), BoxError> {
    stage.trims().await?;
    export.flush().await?;
    stage.clears().await?;
    export.flush().await?;
    stage.summarizes().await?;
    export.flush().await?;
    stage.waits().await?;
    export.flush().await?;
    stage.streams().await?;
    export.flush().await?;
    stage.conflicts().await?;
    Ok(export.flush().await?)
}
