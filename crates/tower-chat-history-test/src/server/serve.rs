//! The connections, each in a task that ends with the server.

use std::{pin::pin, time::Duration};

use axum::Router;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

/// Serves until the stop signal, and then until every connection is closed.
///
/// axum's own `serve` is not used, because its connections continue after it is aborted. Here, aborting this function
/// drops the set of connections, and they are aborted too.
pub(super) async fn serve(listener: TcpListener, router: Router, stop: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    let mut stopped = pin!(stopped(stop.clone()));
    loop {
        tokio::select! {
            () = &mut stopped => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, router.clone(), stop.clone()));
                }
                // Too many open files, or a client that left at once. The server continues.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(stream: TcpStream, router: Router, stop: watch::Receiver<bool>) {
    // Sends every chunk when it is written. If this fails, chunks are only delayed.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let mut router = router.clone();
        async move { tower_service::Service::call(&mut router, request).await }
    });
    let mut connection = pin!(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    // An error means that the client left, or that the reply aborts the connection. The client notices both.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stopped(stop) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    // An error means that the server was dropped.
    let _ = stop.wait_for(|stop| *stop).await;
}
