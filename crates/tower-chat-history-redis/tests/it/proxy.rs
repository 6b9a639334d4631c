//! A network between store and server that disturbs connections on demand.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use test_servers::redis::Server;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UnixStream},
};

/// A proxy in front of a server, on a free port of the loopback interface. It ends with the test's runtime.
pub(crate) struct Proxy {
    address: SocketAddr,
    network: Arc<Network>,
}

#[derive(Default)]
struct Network {
    connections: AtomicU64,
    /// Connections up to this number stay open, but pass nothing on.
    silent: AtomicU64,
    /// After the first request with this text, no connection passes anything on.
    fatal: Mutex<Option<&'static str>>,
    /// The first answer with this text is lost, and its connection is closed.
    lost: Mutex<Option<&'static str>>,
    /// The data of clients since the last repetition.
    requests: Mutex<Vec<Vec<u8>>>,
}

impl Proxy {
    pub(crate) async fn start(server: &Server) -> Self {
        let socket = PathBuf::from(server.url().trim_start_matches("unix://"));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let network = Arc::new(Network::default());
        let shared = Arc::clone(&network);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let socket = socket.clone();
                let network = Arc::clone(&shared);
                let number = network.connections.fetch_add(1, Relaxed) + 1;
                tokio::spawn(async move { network.connection(number, client, &socket).await });
            }
        });
        Self { address, network }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.network.connections.load(Relaxed)
    }

    /// Silences the existing connections: they pass nothing on.
    pub(crate) fn silence(&self) {
        self.network.silent.store(self.connections(), Relaxed);
    }

    /// Silences all connections, also future ones.
    pub(crate) fn silence_all(&self) {
        self.network.silent.store(u64::MAX, Relaxed);
    }

    /// Silences all connections from the first request on that contains this text.
    pub(crate) fn silence_from(&self, text: &'static str) {
        *self.network.fatal.lock().unwrap() = Some(text);
    }

    /// Loses the next answer that contains this text.
    pub(crate) fn lose(&self, text: &'static str) {
        *self.network.lost.lock().unwrap() = Some(text);
    }

    /// Forgets what clients have sent.
    pub(crate) fn forget_requests(&self) {
        self.network.requests.lock().unwrap().clear();
    }

    /// Sends everything that clients have sent since the last repetition once more, in order, and waits for the
    /// answers.
    pub(crate) async fn repeat(&self, server: &Server) {
        let requests = std::mem::take(&mut *self.network.requests.lock().unwrap());
        assert!(!requests.is_empty());
        let mut server = UnixStream::connect(server.url().trim_start_matches("unix://")).await.unwrap();
        for request in requests {
            server.write_all(&request).await.unwrap();
            assert!(server.read(&mut [0; 4_096]).await.unwrap() > 0);
        }
    }

    /// Returns true if the answer arrived and was lost.
    pub(crate) fn has_lost(&self) -> bool {
        self.network.lost.lock().unwrap().is_none()
    }
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

impl Network {
    fn is_silent(&self, number: u64) -> bool {
        number <= self.silent.load(Relaxed)
    }

    fn note_request(&self, request: &[u8]) {
        self.requests.lock().unwrap().push(request.to_owned());
        if self.fatal.lock().unwrap().is_some_and(|text| has(request, text)) {
            self.silent.store(u64::MAX, Relaxed);
        }
    }

    fn loses_answer(&self, answer: &[u8]) -> bool {
        let mut lost = self.lost.lock().unwrap();
        let is_it = lost.is_some_and(|text| has(answer, text));
        if is_it {
            *lost = None;
        }
        is_it
    }

    /// Passes on data in both directions until one side ends.
    async fn connection(&self, number: u64, client: TcpStream, server: &Path) {
        let Ok(server) = UnixStream::connect(server).await else { return };
        client.set_nodelay(true).unwrap();
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();

        let requests = async {
            let mut piece = vec![0; 64 << 10];
            while let Ok(read @ 1..) = from_client.read(&mut piece).await {
                self.note_request(&piece[..read]);
                if !self.is_silent(number) && to_server.write_all(&piece[..read]).await.is_err() {
                    return;
                }
            }
        };

        let answers = async {
            let mut piece = vec![0; 64 << 10];
            while let Ok(read @ 1..) = from_server.read(&mut piece).await {
                let answer = &piece[..read];
                if self.loses_answer(answer) || (!self.is_silent(number) && to_client.write_all(answer).await.is_err())
                {
                    return;
                }
            }
        };

        tokio::select! {
            () = requests => {}
            () = answers => {}
        }
    }
}
