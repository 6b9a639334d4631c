//! A server that keeps the bytes of a request, and answers with given bytes in given pieces.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// A request as the server received it.
#[derive(Debug)]
pub(super) struct Received {
    /// The headers in order, with lower-case names.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

/// Listens on a free port. Returns the listener, and the URL of chat completions there.
pub(super) async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/v1/chat/completions", listener.local_addr().unwrap());
    (listener, url)
}

/// Receives one request, and answers it with a body of these pieces and a trailer.
pub(super) async fn answer_one(listener: &TcpListener, kind: &str, pieces: &[Vec<u8>]) -> Received {
    let (mut stream, _) = listener.accept().await.unwrap();
    // Each piece should arrive separately.
    stream.set_nodelay(true).unwrap();
    let received = read(&mut stream).await;
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nx-request-id: r\r\nconnection: close\r\ntrailer: x-checksum\r\n"
    );
    stream.write_all(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes()).await.unwrap();
    // An empty chunk would end the body.
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
        stream.write_all(&chunk).await.unwrap();
        tokio::task::yield_now().await;
    }
    stream.write_all(b"0\r\nx-checksum: 7\r\n\r\n").await.unwrap();
    received
}

async fn read(stream: &mut TcpStream) -> Received {
    let mut bytes = Vec::new();
    let head = loop {
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "the request ends in its headers");
        if let Some(end) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            break end;
        }
    };
    let mut body = bytes.split_off(head + 4);
    let lines = String::from_utf8(bytes).unwrap();
    let headers = lines.lines().skip(1).filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()));
    let headers: Vec<(String, String)> = headers.collect();
    let length = headers.iter().find(|(name, _)| name == "content-length").map(|(_, length)| length.parse().unwrap());
    while body.len() < length.unwrap_or(0) {
        assert_ne!(stream.read_buf(&mut body).await.unwrap(), 0, "the request ends in its body");
    }
    Received { headers, body: String::from_utf8(body).unwrap() }
}
