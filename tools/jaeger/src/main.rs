//! Receives traces and shows them in the Jaeger UI, without Docker, for development and for screenshots.
//!
//! The store, the query API and the UI come from `otlp-embedded`. The receivers ([`receiver`]) accept OTLP over gRPC
//! and over HTTP. They add attributes for values that the store would drop ([`translate`]).

mod receiver;
mod translate;

use std::{net::SocketAddr, process::ExitCode};

use clap::Parser;
use otlp_embedded::{Config, State, TraceServiceServer, ui_app};
use tokio::net::TcpListener;
use tonic::transport::{Server, server::TcpIncoming};

use receiver::{MAX_REQUEST_BYTES, Receiver};

/// Receive traces over OTLP, store the newest 1,000 in memory, and show them in the Jaeger UI
#[derive(Debug, Parser)]
struct Args {
    /// Address of the UI and its query API: a port or address:port; port 0 chooses a free port
    #[arg(long, default_value = "16686", value_parser = address)]
    ui: SocketAddr,
    /// Address of the OTLP/gRPC receiver
    #[arg(long, default_value = "4317", value_parser = address)]
    grpc: SocketAddr,
    /// Address of the OTLP/HTTP receiver (binary protobuf, path /v1/traces)
    #[arg(long, default_value = "4318", value_parser = address)]
    http: SocketAddr,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::from(([127, 0, 0, 1], port))),
        Err(_) => text.parse().map_err(|_| "expected a port or address:port".to_owned()),
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("jaeger: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<(), String> {
    let ended = ended().map_err(|error| format!("cannot listen for signals: {error}"))?;
    let ui = bind("--ui", args.ui).await?;
    let grpc = bind("--grpc", args.grpc).await?;
    let http = bind("--http", args.http).await?;

    // screenshot.sh reads these lines.
    println!("Jaeger UI  http://{}", bound(&ui)?);
    println!("OTLP/gRPC  http://{}", bound(&grpc)?);
    println!("OTLP/HTTP  http://{}", bound(&http)?);

    let state = State::new(Config { max_length: 1000, max_memory_usage: 128 << 20 });
    let receiver = Receiver::new(&state);
    let grpc_service = TraceServiceServer::new(receiver.clone()).max_decoding_message_size(MAX_REQUEST_BYTES);

    // A signal drops the servers and their open requests. Nothing is lost, because traces are stored in memory only.
    tokio::select! {
        () = ended => Ok(()),
        result = axum::serve(ui, ui_app(state, "/")) => result.map_err(|error| format!("UI: {error}")),
        result = axum::serve(http, receiver.http()) => result.map_err(|error| format!("OTLP/HTTP: {error}")),
        result = Server::builder().add_service(grpc_service).serve_with_incoming(TcpIncoming::from(grpc)) => {
            result.map_err(|error| format!("OTLP/gRPC: {error}"))
        }
    }
}

async fn bind(flag: &str, address: SocketAddr) -> Result<TcpListener, String> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| format!("cannot listen on {address} (use {flag} to set another address): {error}"))
}

fn bound(listener: &TcpListener) -> Result<SocketAddr, String> {
    listener.local_addr().map_err(|error| error.to_string())
}

/// Returns a future that resolves on Ctrl-C, and on Unix also on SIGTERM.
#[cfg(unix)]
fn ended() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => (),
            _ = terminate.recv() => (),
        }
    })
}

#[cfg(not(unix))]
fn ended() -> std::io::Result<impl Future<Output = ()>> {
    Ok(async {
        // Without a handler, the system's default action ends the process.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_without_an_address_is_on_localhost() {
        assert_eq!(address("4317"), Ok(SocketAddr::from(([127, 0, 0, 1], 4317))));
        assert_eq!(address("0.0.0.0:1"), Ok(SocketAddr::from(([0, 0, 0, 0], 1))));
        assert!(address("localhost").is_err());
    }
}
