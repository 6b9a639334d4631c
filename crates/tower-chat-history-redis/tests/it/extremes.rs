//! Options at the ends of their ranges, on servers over TCP.

use std::time::Duration;

use libtest_mimic::Trial;
use test_servers::{free_ports, redis::Server, trials};
use tokio::net::TcpSocket;
use tower_chat_history_redis::OpenError;

use crate::support::{cluster, conversation, patient, say, texts};

pub(crate) fn tests() -> Vec<Trial> {
    trials![a_store_opens_with_every_time_limit, an_error_names_the_server_without_secrets,]
}

const DAY: Duration = Duration::from_secs(24 * 3_600);

async fn a_store_opens_with_every_time_limit() {
    let port = free_ports().next().unwrap();
    let _server = Server::with(&["--save", "", "--appendonly", "no", "--port", &port.to_string()]);
    let address = format!("redis://127.0.0.1:{port}/");
    let largest = Duration::from_millis(i32::MAX as u64);
    for (number, limit) in [DAY, largest / 2, largest / 2 + Duration::from_millis(1), largest, 30 * DAY, Duration::MAX]
        .into_iter()
        .enumerate()
    {
        let id = conversation(&format!("extreme {number}"));
        for options in [
            patient().response_timeout(limit),
            patient().connection_timeout(limit),
            patient().retry_for(limit),
            patient().response_timeout(limit).connection_timeout(limit).retry_for(limit),
        ] {
            say(&options.clone().connect(&address).await.unwrap(), &id, "single").await;
            say(&options.connect_cluster(cluster().urls()).await.unwrap(), &id, "cluster").await;
        }
        let single = patient().connect(&address).await.unwrap();
        assert_eq!(texts(&single, &id).await, ["single"; 4]);
    }
    // A single attempt is enough if nothing fails.
    let once = patient().retry_for(Duration::ZERO).connect(&address).await.unwrap();
    say(&once, &conversation("once"), "one").await;
}

async fn an_error_names_the_server_without_secrets() {
    // No server can listen at its port, because this socket has it.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    let options = || patient().retry_for(Duration::ZERO).connection_timeout(Duration::from_secs(1));
    let single = options().connect(format!("redis://me:hunter2@127.0.0.1:{port}/")).await.unwrap_err();
    let cluster = options().connect_cluster([format!("redis://me:hunter2@127.0.0.1:{port}/")]).await.unwrap_err();
    for error in [single, cluster] {
        let OpenError::Connect { source, .. } = &error else { panic!("{error:?}") };
        let text = format!("connecting to the server at 127.0.0.1:{port} failed: {source}");
        assert_eq!(error.to_string(), text);
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
    let no_address = options().connect("hunter2").await.unwrap_err();
    assert!(matches!(&no_address, OpenError::Connect { server: None, .. }), "{no_address:?}");
    assert!(!format!("{no_address} {no_address:?}").contains("hunter2"), "{no_address:?}");
}
