//! Connections, each in a task that ends with the server.

use std::{pin::pin, time::Duration};

use axum::Router;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

/// Serves until told to stop, and then until every connection is closed.
///
/// axum's own `serve` would leave its connections running when it is aborted; here they are aborted with the set.
pub(super) async fn serve(listener: TcpListener, router: Router, stopped: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    let mut stop = pin!(told_to_stop(stopped.clone()));
    loop {
        tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, router.clone(), stopped.clone()));
                }
                // Out of file descriptors, or a client that left at once: neither ends a server.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(stream: TcpStream, router: Router, stopped: watch::Receiver<bool>) {
    // Every chunk goes out when it is written. Without this it only comes later, so a failure is no reason to stop.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let mut router = router.clone();
        async move { tower_service::Service::call(&mut router, request).await }
    });
    let mut connection = pin!(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    // An error is a client that left, or a connection that was to break: both are the client's to notice.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = told_to_stop(stopped) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

async fn told_to_stop(mut stopped: watch::Receiver<bool>) {
    // An error means that the server is gone, and that stops it too.
    let _ = stopped.wait_for(|stop| *stop).await;
}
